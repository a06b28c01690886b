"""An executable whose inputs are padded to buckets, so that few sizes are captured.

    11 rows ─► bucket 16 ─► into the bucket's memory, filled up ─► replay of 16 ─► 11 rows of each result

The captured keys are those of buckets; their padded inputs lie in memory of the executable's own, which the capture
reads where it is.  A call that no bucket fits runs as it would without buckets, and is counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import SymInt, Tensor
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_unflatten

from air_aclgraph import _captured
from air_aclgraph._copies import one_by_one
from air_aclgraph._executable import Executable
from air_aclgraph._fit import Cut, Home, Values, cut_of, evaluated, leaves_of, shape_of
from air_aclgraph._key import Key
from air_aclgraph._making import Making
from air_aclgraph._pin import Pinned
from air_aclgraph._plan import ResourcePlan
from air_aclgraph._policy import KeyPolicy
from air_aclgraph._results import repeated
from air_aclgraph._slots import Kind
from air_aclgraph.buckets import Bucket
from air_aclgraph.errors import BucketsRefused, InputRefused
from air_aclgraph.static_kernel import StaticKernels

_FITS_LIMIT: Final = 1024
_PADDED: Final = (Kind.COPIED, Kind.BOUND)


@dataclass(frozen=True)
class _Fit:
    """How calls with one combination of sizes are served."""

    key: Key
    replaced: tuple[tuple[int, Any], ...]  # inputs of the padded run that are not the caller's
    places: tuple[int, ...]  # of the inputs that are copied
    copy: Callable[..., object]
    fillings: tuple[tuple[list[Tensor], list[Tensor]], ...]
    cuts: tuple[Cut | None, ...]
    storages: frozenset[int]  # of the memory that the next call overwrites


class BucketedExecutable(Executable):
    """A compiled graph that pads."""

    def __init__(
        self,
        gm: GraphModule,
        buckets: Sequence[Bucket],
        making: Making,
        resources: ResourcePlan,
        kernels: StaticKernels | None = None,
    ) -> None:
        super().__init__(making, resources, kernels)
        self.buckets = tuple(buckets)
        self._examples = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
        self._leaves = leaves_of(gm)
        self._again = repeated(self._making.results)
        self._sources = _sources_of(self._examples, self.name)
        self._places = self._padded_inputs()
        _refuse_mixed(self.buckets, self.name)
        self._kinds = [slot.kind for slot in self.slots]
        self._writes = Kind.MUTATED in self._kinds
        self._homes: dict[Key, list[Home]] = {}
        self._fits: OrderedDict[tuple[int, ...], _Fit | str] = OrderedDict()
        self._serving: Key | None = None
        self._padded_calls = 0
        self._unpadded: dict[str, int] = {}

    def _padded_inputs(self) -> tuple[int, ...]:
        """The inputs that are padded, each in the place that a copy of it can take."""
        found = sorted({index for bucket in self.buckets for index in _padded_by(bucket)})
        for index in found:
            slot = self.slots[index]
            if slot.kind not in _PADDED:
                raise BucketsRefused(
                    f"input {slot.name!r} has a padded size and is {slot.kind.value}: {slot.because}",
                    advice="declare buckets for inputs that change from call to call",
                )
        return tuple(found)

    def boxed(self, args: Sequence[Any]) -> Any:
        """Runs the graph on its inputs, padded to their buckets."""
        with self._lock:
            fit = self._fit(args)
            obstacle = fit if isinstance(fit, str) else self._obstacle(args)
            if obstacle is not None or isinstance(fit, str):
                self._unpadded[str(obstacle)] = self._unpadded.get(str(obstacle), 0) + 1
                return super().boxed(args)
            padded = list(args)
            for index, value in fit.replaced:
                padded[index] = value
            fit.copy(*[args[place] for place in fit.places])
            for paddings, first in fit.fillings:
                torch._foreach_copy_(paddings, first, True)
            self._padded_calls += 1
            self._serving = fit.key
            try:
                return self._cut(super().boxed(padded), fit, args)
            finally:
                self._serving = None

    def _cut(self, outputs: Any, fit: _Fit, args: Sequence[Any]) -> Any:
        leaves = outputs if self._structure is None else tree_leaves(outputs)
        kept, own = self.options.outputs != "view", list[Any]()
        for place, (result, cut) in enumerate(zip(leaves, fit.cuts, strict=True)):
            if place in self._again:
                own.append(own[self._again[place]])
                continue
            one = result if cut is None else cut(result, args)
            own.append(one.clone() if kept and _lies_in(one, fit.storages) else one)
        return tuple(own) if self._structure is None else tree_unflatten(own, self._structure)

    def _obstacle(self, args: Sequence[Any]) -> str | None:
        """Why this call, whose sizes fit, is not padded; orders the caller's stream behind the last replay."""
        ready = self._making.ready
        if self._making.turn is not None and self._making.turn[0]:
            return "inside another capture or replay"
        if ready is not None and ready.current() != ready.last[0] and not ready.switch():
            return "inside another capture or replay"
        if self._writes and any(_captured.overlaps_written(args, self._kinds, i) for i in self._places):
            return "a padded input shares memory that the graph writes"
        return None

    def _fit(self, args: Sequence[Any]) -> _Fit | str:
        """How to serve these sizes, or why they are not padded."""
        sizes = tuple(
            args[index] if dim is None else args[index].shape[dim] for index, dim in self._sources.values()
        )
        fit = self._fits.get(sizes)
        if fit is None:
            fit = self._fits[sizes] = self._fitted(dict(zip(self._sources, sizes, strict=True)), args)
            if len(self._fits) > _FITS_LIMIT:
                self._fits.popitem(last=False)
            if isinstance(fit, str):
                self._note(f"sizes {sizes} are not padded: {fit}")
        return fit

    def _fitted(self, used: Values, args: Sequence[Any]) -> _Fit | str:
        padded = dict(used)
        for bucket in self.buckets:
            found = {used[symbol] for symbol in bucket.symbols}
            if len(found) > 1:
                return f"sizes that are padded together differ: {sorted(found)}"
            size = bucket.up(found.pop())
            if size is None:
                return f"no bucket of {list(bucket.sizes)} holds it"
            padded.update(dict.fromkeys(bucket.symbols, size))
        broken = _broken_guard(self._examples, padded)
        if broken is not None:
            return f"the graph was traced under the condition {broken}, which the bucket does not meet"
        homes = self._homes_of(padded)
        replaced: list[tuple[int, Any]] = [(home.index, home.tensor) for home in homes]
        replaced += [
            (i, evaluated(example, padded))
            for i, example in enumerate(self._examples)
            if isinstance(example, SymInt)
        ]
        whole = list(args)
        for index, value in replaced:
            whole[index] = value
        key = self._key(whole)
        self._homes[key] = homes
        rooms = [home.room(used) for home in homes]
        rounds = [home.fillings(used) for home in homes]
        fillings = []
        for turn in range(max(map(len, rounds), default=0)):
            pairs = [filling[turn] for filling in rounds if turn < len(filling)]
            fillings.append(([padding for padding, _ in pairs], [first for _, first in pairs]))
        return _Fit(
            key,
            tuple(replaced),
            tuple(home.index for home in homes),
            (self._making.copies or one_by_one)(rooms),
            tuple(fillings),
            tuple(self._cuts(padded, used)),
            frozenset(home.tensor.untyped_storage()._cdata for home in homes),
        )

    def _homes_of(self, padded: Values) -> list[Home]:
        """The memory of the padded inputs for these buckets."""
        for homes in self._homes.values():
            wanted = [shape_of(self._examples[i], padded) for i in self._places]
            if [(list(home.tensor.shape), list(home.tensor.stride())) for home in homes] == wanted:
                return homes
        homes = []
        for index in self._places:
            example = self._examples[index]
            sizes, strides = shape_of(example, padded)
            memory = torch.empty_strided(sizes, strides, dtype=example.dtype, device=self.runtime.device)
            labels = [(bucket, bucket.proof.inputs[index]) for bucket in self.buckets]
            homes.append(Home(index, memory, tuple((b, each) for b, each in labels if each is not None)))
        return homes

    def _cuts(self, padded: Values, used: Values) -> list[Cut | None]:
        cuts = []
        for place, example in enumerate(self._leaves):
            labels = [(bucket, bucket.proof.results[place]) for bucket in self.buckets]
            known = [(bucket, each) for bucket, each in labels if each is not None]
            lent = self.options.outputs == "guarded"
            cuts.append(cut_of(example, known, self._making.given[place], padded, used, lent=lent))
        return cuts

    def _policy(self, key: Key) -> KeyPolicy:
        """The padded inputs of a bucket lie where the executable has put them."""
        policy = super()._policy(key)
        if key in self._homes:
            for index in self._places:
                policy.kinds[index] = Kind.STATIC
        return policy

    def _drop(self, key: Key) -> None:
        super()._drop(key)
        if key == self._serving:
            return  # to be captured anew, from the same memory
        if self._homes.pop(key, None) is not None:
            for sizes in [s for s, fit in self._fits.items() if not isinstance(fit, str) and fit.key == key]:
                del self._fits[sizes]

    def pin(self, *args: Any) -> Pinned:
        """Refused: a pinned call copies its inputs as they are."""
        raise InputRefused(
            f"{self.name} pads its inputs to buckets, which a pinned call cannot",
            advice="pin a function compiled without buckets, with inputs of the size it is to have",
        )

    @property
    def nbytes(self) -> int:
        """Bytes the captured keys hold, with the memory of padded inputs."""
        storages = (home.tensor.untyped_storage() for homes in self._homes.values() for home in homes)
        return super().nbytes + sum({storage._cdata: storage.nbytes() for storage in storages}.values())

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), "padded": self._padded_calls, "not_padded": dict(self._unpadded)}

    def explain(self) -> dict[str, Any]:
        rows = [
            {
                "sizes": list(bucket.sizes),
                "symbols": [str(symbol) for symbol in bucket.symbols],
                "inputs": [self.slots[index].name for index in _padded_by(bucket)],
            }
            for bucket in self.buckets
        ]
        return {**super().explain(), "buckets": rows}


def _lies_in(value: Any, storages: frozenset[int]) -> bool:
    return isinstance(value, Tensor) and value.untyped_storage()._cdata in storages


def _padded_by(bucket: Bucket) -> list[int]:
    """The inputs that have the padded size."""
    return [index for index, labels in enumerate(bucket.proof.inputs) if labels and any(labels)]


def _refuse_mixed(buckets: Sequence[Bucket], name: str) -> None:
    """Refuses a dimension of an input or a result that is a product of two padded sizes."""
    for bucket in buckets:
        others = {symbol for other in buckets if other is not bucket for symbol in other.symbols}
        for labels in (*bucket.proof.inputs, *bucket.proof.results):
            for label in filter(None, labels or ()):
                if others & (label.outer * label.inner).free_symbols:
                    raise BucketsRefused(
                        f"a dimension of an input or a result of {name} is a product of two sizes with buckets",
                        advice="view it as two dimensions, or declare buckets for one of the sizes",
                    )


def _sources_of(examples: Sequence[Any], name: str) -> dict[Any, tuple[int, int | None]]:
    """Symbol -> the input, and its dimension, that gives its value."""
    found: dict[Any, tuple[int, int | None]] = {}
    wanted: set[Any] = set()
    for index, example in enumerate(examples):
        sizes = example.shape if isinstance(example, Tensor) else [example]
        for dim, size in enumerate(sizes):
            if isinstance(size, SymInt):
                wanted |= size.node.expr.free_symbols
                if size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, (index, dim if isinstance(example, Tensor) else None))
    if wanted - set(found):
        raise BucketsRefused(
            f"no input of {name} tells the value of {sorted(map(str, wanted - set(found)))[0]}",
            advice="declare no buckets for this graph",
        )
    return found


def _broken_guard(examples: Sequence[Any], values: Values) -> str | None:
    """A condition on sizes that the graph was traced under, and that these sizes do not meet."""
    sizes = (
        s for e in examples for s in (e.shape if isinstance(e, Tensor) else [e]) if isinstance(s, SymInt)
    )
    environment = next((size.node.shape_env for size in sizes), None)
    if environment is None:
        return None
    for symbol, value in values.items():
        bounds = environment.var_to_range.get(symbol)
        if bounds is not None and not (bounds.lower <= value <= bounds.upper):
            return f"{bounds.lower} <= {symbol} <= {bounds.upper}"
    for guard in environment.guards:
        if environment.replace(guard.expr).xreplace(values) == False:  # noqa: E712  # sympy's false is no bool
            return str(guard.expr)
    return None
