"""An executable whose inputs are padded to buckets, so that few sizes are captured.

    11 rows ─► bucket 16 ─► into the bucket's memory, filled up ─► replay of 16 ─► 11 rows of each result

The captured keys are those of buckets; their padded inputs lie in memory of `Fits`, which the capture reads where it
is.  A call that no bucket fits runs as it would without buckets, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_unflatten

from air_aclgraph._clashes import clashing
from air_aclgraph._executable import Executable
from air_aclgraph._key import Key
from air_aclgraph._making import Making
from air_aclgraph._memory import has_gaps
from air_aclgraph._pieced import Splitter
from air_aclgraph._plan import ResourcePlan
from air_aclgraph._slots import Kind
from air_aclgraph.buckets._fits import Fit, Fits
from air_aclgraph.buckets._proven import Bucket, refuse_mixed
from air_aclgraph.errors import InputRefused
from air_aclgraph.static_kernel import StaticKernels
from air_graph import wait_for
from air_graph.executors import Executor, WholeGraph, boxed

if TYPE_CHECKING:
    from air_graph.pieces import LeftOut


class PaddedExecutable(WholeGraph):
    """A compiled graph that pads; `executable` is the one that runs what was padded."""

    def __init__(
        self,
        gm: GraphModule,
        buckets: Sequence[Bucket],
        making: Making,
        resources: ResourcePlan,
        kernels: StaticKernels | None = None,
    ) -> None:
        self.name, self.slots = making.name, making.slots
        self._making = making
        self._lock = making.runtime.lock
        self._fits = Fits(gm, buckets, making)
        refuse_mixed(self._fits.buckets, self.name)
        self._kinds = [slot.kind for slot in making.slots]
        self._writes = Kind.MUTATED in self._kinds
        self._wholes = [index for index in self._fits.places if index in making.wholes]
        self._padded_calls = 0
        self._unpadded: dict[str, int] = {}
        self.executable = Executable(making, resources, kernels, placed=self._fits)

    def __call__(self, *args: Any) -> Any:
        """Runs the graph on its inputs."""
        return self.boxed(args)

    def boxed(self, args: Sequence[Any]) -> Any:
        """Runs the graph on its inputs, padded to their buckets."""
        with self._lock:
            fit = self._fits.of(args, self.executable.key_of)
            obstacle = fit if isinstance(fit, str) else self._obstacle(args)
            if obstacle is not None or isinstance(fit, str):
                self._unpadded[str(obstacle)] = self._unpadded.get(str(obstacle), 0) + 1
                return self.executable.boxed(args)
            return self._run(fit, args)

    def _run(self, fit: Fit, args: Sequence[Any]) -> Any:
        """A call that is padded."""
        wait_for(args, self._making.in_flight)
        padded = list(args)
        for index, value in fit.replaced:
            padded[index] = value
        fit.copy(*[args[place] for place in fit.places])
        for paddings, first in fit.fillings:
            torch._foreach_copy_(paddings, first, True)
        self._padded_calls += 1
        self._fits.serving = fit.key
        try:
            return self._cut(self.executable.boxed(padded), fit, args)
        finally:
            self._fits.serving = None

    def _cut(self, outputs: Any, fit: Fit, args: Sequence[Any]) -> Any:
        spec = self._making.spec
        own = fit.cuts(outputs if spec is None else tree_leaves(outputs), args)
        return tuple(own) if spec is None else tree_unflatten(own, spec)

    def _obstacle(self, args: Sequence[Any]) -> str | None:
        """Why this call, whose sizes fit, is not padded; orders the caller's stream behind the last replay."""
        ready, turn = self._making.ready, self._making.turn
        if turn is not None and turn[0]:
            return "inside another capture or replay"
        if ready is not None and ready.current() != ready.last[0] and not ready.switch():
            return "inside another capture or replay"
        if self._writes and clashing(args, self._kinds, among=self._fits.places):
            return "a padded input shares memory that the graph writes"
        for index in self._wholes:  # what is padded is a copy of the elements alone
            if has_gaps(args[index]):
                return f"a result lies as input {self.slots[index].name!r} does in a larger tensor"
        return None

    def boxed_callable(self) -> Callable[[list[Any]], Any]:
        """A plain function for AOTAutograd, which asks a compiled function whether it takes one list."""
        return boxed(lambda args: self.boxed(args))

    def split_by(self, splitter: Splitter) -> None:
        """Asks `splitter`, where the device refuses an operator in a capture, for what runs the graph in pieces."""
        self.executable.split_by(splitter)

    def pin(self, *args: Any) -> NoReturn:
        """Refused: a pinned call copies its inputs as they are."""
        raise InputRefused(
            f"{self.name} pads its inputs to buckets, which a pinned call cannot",
            advice="pin a function compiled without buckets, with inputs of the size it is to have",
        )

    @property
    def source(self) -> str:
        """The function that is captured, as Python: one line per operator."""
        return self.executable.source

    @property
    def pieces(self) -> Mapping[str, Executor]:
        """Those of the executable, where the device refused an operator in a capture."""
        return self.executable.pieces

    @property
    def eager(self) -> tuple[LeftOut, ...]:
        """What the executable runs eagerly between them."""
        return self.executable.eager

    @property
    def nbytes(self) -> int:
        """Bytes the captured keys hold, with the memory of padded inputs."""
        return self.executable.nbytes

    def keys(self) -> list[Key]:
        """The keys that are captured, the least recently used first."""
        return self.executable.keys()

    def stats(self) -> dict[str, Any]:
        """Counts since the graph was compiled, and how many calls were padded."""
        counted = {"padded": self._padded_calls, "not_padded": dict(self._unpadded)}
        return {**self.executable.stats(), **counted}

    def explain(self) -> dict[str, Any]:
        """What the executable tells, and which sizes its inputs are padded to."""
        return {**self.executable.explain(), "buckets": self._fits.explain()}

    def reads_one_of(self, storages: set[int]) -> bool:
        """Whether a capture reads or writes one of these storages, as `air_graph.storage_of` names them."""
        return self.executable.reads_one_of(storages)

    def release(self) -> None:
        """Gives back everything the captures hold, with the memory of padded inputs; the next call captures again."""
        with self._lock:
            self.executable.release()

    def invalidate(self) -> None:
        """Drops every capture, with the memory of its padded inputs."""
        self.executable.invalidate()

    def close(self) -> None:
        """Gives back everything the captures hold; a later call raises."""
        self.executable.close()
