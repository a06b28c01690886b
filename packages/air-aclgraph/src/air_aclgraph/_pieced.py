"""A graph that runs in parts: captured pieces with eager operators between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from air_aclgraph._by_size import OncePerSize
from air_aclgraph.errors import IllegalDuringCapture, InputRefused
from air_graph.executors import left_out
from air_graph.pieces import LeftOut

Splitter = Callable[[Node, IllegalDuringCapture], "PiecedExecutable | None"]
"""Takes the node at which a capture failed, and the error; gives what runs the graph cut there, if it can be."""

_SUMMED = (
    "captures",
    "replays",
    "copies",
    "copied_bytes",
    "evictions",
    "capture_failures",
    "adopted_inputs",
    "capture_seconds",
    "keys",
)


class PiecedExecutable:
    """Calls the parts of one graph in order; everything that can be asked of an executable is asked of its pieces."""

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        pieces: Mapping[str, Any],
        eager: Sequence[LeftOut],
        by_size: Sequence[LeftOut] = (),
        numbers: Sequence[LeftOut] = (),
        once: Mapping[str, OncePerSize] | None = None,
    ) -> None:
        self.name = name
        self.pieces = dict(pieces)
        self.eager = tuple(eager)
        """What runs eagerly, and why."""
        self.by_size = tuple(by_size)
        """What the host computes once for each size."""
        self.numbers = tuple(numbers)
        """Numbers that are put on the device before the pieces run."""
        self.once = dict(once or {})
        """The parts that do so."""
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self.boxed(args)

    def boxed(self, args: Sequence[Any]) -> Any:
        """Runs the graph on its inputs, given in one list or tuple."""
        if not torch.is_grad_enabled():
            return self._call(*args)
        with torch.no_grad():
            return self._call(*args)

    @property
    def source(self) -> str:
        """The Python of each piece."""
        return "\n\n".join(f"# {name}\n{piece.source}" for name, piece in self.pieces.items())

    def pin(self, *args: Any) -> Any:
        """Refuses: a handle replays one capture, and this graph has several, with work of the host between them."""
        first = (*self.eager, *self.by_size, *self.numbers)[0]
        raise InputRefused(
            f"{self.name} runs in {len(self.pieces)} captured pieces with work of the host between them, and a pinned "
            "handle replays one",
            advice=f"take {first.target} out of the compiled function ({first.source}): {first.reason}",
        )

    def invalidate(self) -> None:
        """Drops every capture; the next call captures again."""
        for piece in self.pieces.values():
            piece.invalidate()

    def reads_one_of(self, storages: set[int]) -> bool:
        """Whether a capture of a piece reads or writes one of these storages, as `air_graph.storage_of` names them."""
        return any(piece.reads_one_of(storages) for piece in self.pieces.values())

    def release(self) -> None:
        """Gives back everything the captures hold; the next call captures again."""
        for piece in self.pieces.values():
            piece.release()

    @property
    def nbytes(self) -> int:
        """The most bytes that the captures of a piece hold; pieces share one pool."""
        return max((piece.nbytes for piece in self.pieces.values()), default=0)

    def stats(self) -> dict[str, Any]:
        """Counts since the graph was compiled, summed over its pieces, and those of each."""
        each = {name: piece.stats() for name, piece in self.pieces.items()}
        sums = {what: sum(stats.get(what, 0) for stats in each.values()) for what in _SUMMED}
        return {**sums, "eager operators": len(self.eager), "pieces": each}

    def explain(self) -> dict[str, Any]:
        """Each piece, and each operator that runs eagerly with its reason and place."""
        return {
            "graph": self.name,
            "eager": left_out(self.eager),
            "once for each size": [{"operator": e.target, "where": e.source or e.node} for e in self.by_size],
            "numbers of each call": [
                {"operator": e.target, "where": e.source or e.node} for e in self.numbers
            ],
            "pieces": {name: piece.explain() for name, piece in self.pieces.items()},
        }

    def close(self) -> None:
        """Closes every piece; a later call raises."""
        for piece in self.pieces.values():
            piece.close()
