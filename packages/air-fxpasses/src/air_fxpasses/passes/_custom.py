"""Runs a function of the user as a pass."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from torch._subclasses import FakeTensor
from torch.fx import Graph, GraphModule

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_fxpasses._snapshot import Snapshot


@dataclass(frozen=True)
class CustomPass(Pass):
    """A function that edits a graph module in place; another graph that it returns is an error, what it raises is not.

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
        before, ends, fakes = Snapshot(gm), _ends(gm), _fakes(gm)
        if self.function is not None:
            _refuse_another(self.function(gm), gm)
        modified = not before.is_unchanged()
        if modified:
            _check(gm, ends)
            _refuse_fakes(_fakes(gm) - fakes)
        facts.refresh()
        return PassResult(modified)


def _refuse_another(given: Any, gm: GraphModule) -> None:
    """What a pass gives back is not used: one that makes a graph anew would have done nothing."""
    made = getattr(given, "graph_module", given)  # torch.fx's own PassResult has it
    if inspect.isgenerator(made) or inspect.iscoroutine(made):
        made.close()
        raise TypeError(f"it is a {type(made).__name__}, whose body a call does not run")
    graph = made.graph if isinstance(made, GraphModule) else made
    if isinstance(graph, Graph) and graph is not gm.graph:
        raise TypeError(
            f"it returns another {type(made).__name__}, and a pass edits the one it is given: gm.graph = other.graph"
        )


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


def _fakes(gm: GraphModule) -> frozenset[str]:
    """The names under which a graph reads tensors without data, its own and those of modules it calls."""
    found = set[str]()
    for node in gm.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            value = next(iter(_attributes(gm, str(node.target))), None)
            held = value.state_dict(keep_vars=True).values() if isinstance(value, nn.Module) else (value,)
            if any(isinstance(each, FakeTensor) for each in held):
                found.add(str(node.target))
    return frozenset(found)


def _attributes(gm: GraphModule, name: str) -> tuple[Any, ...]:
    """What a graph module has under a dotted name; nothing where it has none."""
    try:
        return (operator.attrgetter(name)(gm),)
    except AttributeError:
        return ()


def _refuse_fakes(names: frozenset[str]) -> None:
    if names:
        raise ValueError(
            f"{', '.join(sorted(names))}: new and without data. Where graphs are compiled torch makes fake tensors: "
            "make it before, or `with torch._subclasses.fake_tensor.unset_fake_temporarily():`"
        )
