"""A fusion pattern: two functions, what they need, and when one may become the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._refusal import Refusal
from air_graph import find_operator

TABLE: Final = "fusion patterns"
TraceFunction = Callable[[Callable[..., Any], Sequence[Any]], GraphModule]


@dataclass(frozen=True)
class Match:
    """One place in a graph that computes what a pattern's search function computes."""

    pattern: str
    kwargs: Mapping[str, Any]
    """What each parameter of the search function stands for: a node, or a number."""
    nodes: tuple[Node, ...]
    """The matched calls, in program order."""
    outputs: tuple[Node | None, ...]
    """The node of each result; `None` where the graph does not use that result."""
    facts: Facts = field(repr=False)

    def output_node(self) -> Node:
        """The node of the first result that the graph uses."""
        return next(node for node in self.outputs if node is not None)

    def value(self, name: str) -> Any:
        """The example value behind a parameter."""
        given = self.kwargs[name]
        return given.meta["val"] if isinstance(given, Node) else given


#: Says whether a match may be replaced: `True` or `None` for yes, a reason (or `False`) for no.
ExtraCheck = Callable[[Match], "bool | str | Refusal | None"]


@dataclass(frozen=True, eq=False)
class FusionPattern:
    """`search`, found in a graph, becomes `replace`; both take the same parameters.

    `example_inputs` gives tensors to trace `search` with (a function, so that none is made before it is
    needed). `scalars` names parameters that are numbers, each with a value that occurs nowhere else in the
    pattern: a number in the graph where that value stood is what the parameter is bound to. `requires` names
    the operators (`"ns::op"`) without which the pattern is inactive, `operators` those that stand in every match: a
    graph that lacks one is not searched.
    """

    name: str
    search: Callable[..., Any]
    replace: Callable[..., Any]
    example_inputs: Callable[[], Sequence[torch.Tensor]]
    requires: tuple[str, ...] = ()
    scalars: Mapping[str, Any] = field(default_factory=dict)
    extra_check: ExtraCheck | None = None
    trace: TraceFunction | None = None
    operators: frozenset[str] = frozenset()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the tensor parameters, in order."""
        return tuple(name for name in inspect.signature(self.search).parameters if name not in self.scalars)

    def missing(self) -> tuple[str, ...]:
        """The required operators that are not loaded."""
        return tuple(name for name in self.requires if find_operator(name) is None)
