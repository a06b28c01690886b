"""Which node runs before which: a protocol, and program order as its plain case.

On one stream the graph's order is the order of execution. With several streams a node that stands later
may run earlier, so code that moves values into each other's memory asks an `Ordering` instead of
comparing positions. The package that knows streams supplies the real one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch.fx import Node


@runtime_checkable
class Ordering(Protocol):
    """The partial order in which nodes execute."""

    def concurrent(self, a: Node, b: Node) -> bool:
        """Whether nothing orders `a` and `b`."""
        ...

    def happens_before(self, a: Node, b: Node) -> bool:
        """Whether `a` has finished before `b` starts, on every run."""
        ...


@runtime_checkable
class StreamOrdering(Ordering, Protocol):
    """An order that also knows the streams. What joins nodes to one asks it: an order alone is not enough."""

    def same_stream(self, a: Node, b: Node) -> bool:
        """Whether `a` and `b` are certainly issued on one stream."""
        ...


@dataclass(frozen=True)
class ProgramOrder:
    """One stream: nodes run in the order of the graph."""

    def concurrent(self, a: Node, b: Node) -> bool:
        return False

    def happens_before(self, a: Node, b: Node) -> bool:
        return a < b
