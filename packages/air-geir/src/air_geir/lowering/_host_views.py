"""Views that are made outside the graph: a chain of FX nodes as steps over one of the caller's tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import fx

from air_geir.errors import CannotConvert, ExpressionError
from air_geir.ir import as_dim
from air_geir.program import ArgOutput, GraphOutput, HostStep, ViewOutput
from air_graph import link_of

Source: TypeAlias = "ArgOutput | GraphOutput | ViewOutput"


class HostViews:
    """Collects the steps in the order they are made in, one for each node.

    Args:
        base: where the tensor of a value with memory of its own is.
        steps: where the steps are put.
    """

    def __init__(self, base: Callable[[fx.Node], Source], steps: list[HostStep]) -> None:
        self.steps = steps
        self._base = base
        self._made: dict[fx.Node, Source] = {}

    def of(self, node: fx.Node) -> Source:
        """The tensor of a node, by steps from the value that owns its memory."""
        found = self._made.get(node)
        if found is None:
            found = self._made[node] = self._make(node)
        return found

    def again(self, node: fx.Node) -> Source:
        """Another tensor object like that of the node."""
        is_detached = node.target is torch.ops.aten.detach.default
        again = torch.ops.aten.detach.default if is_detached else torch.ops.aten.alias.default
        return self.add(again, self.of(node))

    def add(self, function: Callable[..., Any], source: Source, *arguments: Any, **keywords: Any) -> Source:
        """One more step."""
        self.steps.append(HostStep(function, source, arguments, keywords))
        return ViewOutput(len(self.steps) - 1)

    def _make(self, node: fx.Node) -> Source:
        link = link_of(node)
        if link is None:
            return self._base(node)
        base = self.of(link.base)
        target: Any = link.node.target
        is_detached = target is torch.ops.aten.detach.default and isinstance(base, GraphOutput)
        if link.kind == "again" and (is_detached or isinstance(base, ViewOutput)):
            return self.add(target, base)  # a tensor that is detached from what it is a view of, or lies in
        if link.kind in ("same", "again"):
            return base
        if link.kind == "item":
            return self.add(operator.getitem, base, node.args[1])
        if not node.args or node.args[0] is not link.base:
            raise CannotConvert(
                "the view does not take its base as its first argument",
                advice="return a copy of it (.clone())",
            )
        arguments = tuple(_plain(argument) for argument in node.args[1:])
        return self.add(target, base, *arguments, **{k: _plain(v) for k, v in node.kwargs.items()})


def _plain(argument: Any) -> Any:
    """An argument of a view without nodes: sizes become expressions that the caller's function computes."""
    if isinstance(argument, (list, tuple)):
        return tuple(_plain(one) for one in argument)
    value = argument.meta.get("val") if isinstance(argument, fx.Node) else argument
    if isinstance(value, torch.SymInt):
        try:
            return as_dim(value)
        except ExpressionError as refused:
            raise CannotConvert(refused.what, advice=refused.advice) from refused
    if isinstance(argument, fx.Node) and not isinstance(value, (int, float, bool)):
        raise CannotConvert(
            f"the view takes {argument.name}, which is not known before the graph has run",
            advice="return a copy of the view (.clone()) instead",
        )
    return value
