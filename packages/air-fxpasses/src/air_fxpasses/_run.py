"""Runs a graph on real inputs, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

import air_graph
from air_fxpasses._alone import stands_alone, without_ranks
from air_graph import attribute


@dataclass(frozen=True)
class Outcome:
    """What a caller of a graph can see: the outputs, and the inputs as they are afterwards."""

    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]


def run_graph(gm: GraphModule, inputs: Sequence[Any], *, alone: bool = False) -> Outcome:
    """Calls the graph of `gm`, not its generated code, which may be out of date; `inputs` are written.

    Where it runs `alone`, something local stands in for each collective, and no other rank is spoken to.
    """
    values: dict[Node, Any] = {}
    remaining = iter(inputs)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "output":
            result = map_arg(node.args[0], values.__getitem__)
        else:
            values[node] = _call(gm, node, values, alone=alone)
    outputs = result if isinstance(result, (list, tuple)) else (result,)
    return Outcome(tuple(outputs), tuple(inputs))


def _call(gm: GraphModule, node: Node, values: dict[Node, Any], *, alone: bool) -> Any:
    if node.op == "get_attr":
        return attribute(gm, str(node.target))
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    if alone and isinstance(node.target, OpOverload) and not stands_alone(node.target):
        return without_ranks(node.target, args, kwargs)
    return called(gm, node, args, kwargs)


def called(gm: GraphModule, node: Node, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the target of a node gives for these arguments."""
    target: Any = node.target
    if node.op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    if node.op == "call_module":
        target = gm.get_submodule(target)
    return target(*args, **kwargs)


#: What torch keeps, and neither fills, casts nor compares.
ONLY_BYTES: Final = frozenset({torch.float4_e2m1fn_x2})


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Fresh inputs with the same values, strides and sharing: what one run writes, another must not see."""
    return list(air_graph.copied(list(inputs)))
