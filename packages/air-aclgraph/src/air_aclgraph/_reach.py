"""Finds the inputs whose storage a graph addresses beyond the elements of the input itself (`as_strided`).

Such an input is more than its sizes and strides say: its whole storage, and the place it has there.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_aclgraph._slots import Kind, Slot
from air_aclgraph.errors import InputRefused
from air_graph import addresses_storage, input_roots, keeps_gaps, uses_of

_NO_MEMORY: Final = (Kind.VALUE, Kind.HOST, Kind.RETURNED, Kind.TOKEN, Kind.OBJECT)


def with_reach(slots: Sequence[Slot], gm: GraphModule) -> tuple[Slot, ...]:
    """The slots, with those of inputs that are more to the graph than their own elements marked."""
    addressed = addressed_placeholders(gm)
    return tuple(
        replace(slot, whole=True) if slot.node in addressed and slot.kind not in _NO_MEMORY else slot
        for slot in slots
    )


def refuse_format(name: str, formatted: Tensor | None) -> None:
    """Raises for an input whose memory is in a format of its device: elements cannot be counted in it."""
    if formatted is not None:
        raise InputRefused(
            f"input {name!r} has a private memory format, and the graph addresses its storage (as_strided)",
            advice="convert it with torch_npu.npu_format_cast(tensor, 2) before the call, or slice it instead",
            input=name,
        )


def addressed_placeholders(gm: GraphModule) -> frozenset[Node]:
    """The placeholders of which some node of the graph, or its caller, may see more than their own elements."""
    if not any(addresses_storage(node) or keeps_gaps(node.target) for node in gm.graph.nodes):
        return frozenset()
    roots = input_roots(gm, _with_gaps_of)
    looked_at = (
        value
        for node in filter(addresses_storage, gm.graph.nodes)
        for value in node.all_input_nodes[: 1 if isinstance(node.target, OpOverload) else None]
    )
    returned = _returned_with_gaps(gm, roots)
    return returned.union(*(roots.get(value, ()) for value in looked_at))


def _with_gaps_of(node: Node) -> list[Node]:
    return node.all_input_nodes[:1] if keeps_gaps(node.target) else []


def _returned_with_gaps(gm: GraphModule, roots: Mapping[Node, frozenset[Node]]) -> frozenset[Node]:
    """The placeholders of which a caller gets a copy with what lies round their elements."""
    copied: dict[Node, frozenset[Node]] = {}
    for node in gm.graph.nodes:
        if keeps_gaps(node.target):
            copied[node] = frozenset().union(*(roots.get(v, ()) for v in node.all_input_nodes[:1]))
        elif node.op == "output":
            return frozenset().union(*(copied.get(value, ()) for value in node.all_input_nodes))
        elif node.target is operator.getitem or any(use.aliases for use in uses_of(node)):
            copied[node] = frozenset().union(*(copied.get(value, ()) for value in node.all_input_nodes))
    return frozenset()
