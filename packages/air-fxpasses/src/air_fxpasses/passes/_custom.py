"""Runs a function of the user as a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import GraphModule

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_fxpasses._snapshot import Snapshot


@dataclass(frozen=True)
class CustomPass(Pass):
    """A function that edits a graph module in place; what it returns is ignored, what it raises is not.

    Without a function it is a place in an order of passes, for one that a user may give.
    """

    name: ClassVar[str] = "custom"

    function: Callable[[GraphModule], Any] | None = None
    label: str = "custom"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.label)

    @classmethod
    def of(cls, given: Pass | Callable[[GraphModule], Any], label: str) -> Pass:
        """`given` itself when it is a pass already."""
        return given if isinstance(given, Pass) else cls(given, label)

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        before, ends = Snapshot(gm), _ends(gm)
        if self.function is not None:
            self.function(gm)
        modified = not before.is_unchanged()
        if modified:
            _check(gm, ends)
        facts.refresh()
        return PassResult(modified)


def _ends(gm: GraphModule) -> dict[str, int]:
    """How many values go into a graph, and how many come out."""
    returned = [node.args[0] for node in gm.graph.find_nodes(op="output")]
    outputs = sum(len(each) if isinstance(each, (list, tuple)) else 1 for each in returned)
    return {"inputs": len(gm.graph.find_nodes(op="placeholder")), "outputs": outputs}


def _check(gm: GraphModule, ends: dict[str, int]) -> None:
    """Raises where the graph is none that the callers of the one before can call."""
    gm.graph.lint()
    for name, count in _ends(gm).items():
        if count != ends[name]:
            raise ValueError(f"the graph had {ends[name]} {name} and has {count} after it")
