"""The inputs that a graph turns in place: they have other sizes or strides after it ran (`x.t_()`, `x.resize_()`)."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_graph._in_place import is_named_in_place, name_of_call

aten = torch.ops.aten


def turned_inputs(gm: GraphModule) -> dict[Node, Node]:
    """Each placeholder that is turned, with the first call that does so; calls may be of ATen or of torch."""
    very = {node: node for node in gm.graph.find_nodes(op="placeholder")}
    found: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        operand = node.args[0] if node.op.startswith("call_") and node.args else None
        if not isinstance(operand, Node) or operand not in very:
            continue
        if not is_named_in_place(node):
            continue
        very[node] = very[operand]  # operators in place give back what they were given
        if _turns(node.target, name_of_call(node)):
            found.setdefault(very[operand], node)
    return found


def _turns(target: Any, name: str) -> bool:
    if isinstance(target, OpOverload):
        return torch.Tag.inplace_view in target.tags
    packet = getattr(aten, name, None)
    overloads = () if packet is None else (getattr(packet, each) for each in packet.overloads())
    return any(torch.Tag.inplace_view in one.tags for one in overloads)
