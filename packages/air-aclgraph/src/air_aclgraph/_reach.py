"""Finds the inputs whose storage a graph addresses beyond the elements of the input itself.

    x = base[2:6];  x.as_strided((2,), (1,), 3)    # elements 3 and 4 of the base, whatever x is

`as_strided` and its like count from the start of the storage and may reach any element of it, so an input that they
are applied to, or a view of it, is more than its sizes and strides say: its whole storage, and the place it has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_aclgraph._slots import Kind, Slot
from air_aclgraph.errors import InputRefused
from air_graph import bodies_of, input_roots

#: Operators that look at the storage of their first argument, by the name of their schema.
_ADDRESSING: Final = frozenset(
    (
        "aten::as_strided",
        "aten::as_strided_",
        "aten::as_strided_copy",
        "aten::as_strided_scatter",
        "aten::sym_storage_offset",
        "prims::as_strided",
        "prims::as_strided_scatter",
    )
)
#: Operators whose result is a copy of their first argument with what lies between its elements.
_KEEPS_GAPS: Final = frozenset(
    ("aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter", "aten::as_strided_scatter")
)
_NO_MEMORY: Final = (Kind.VALUE, Kind.HOST, Kind.TOKEN)
_METHODS: Final = frozenset(("as_strided", "as_strided_", "as_strided_scatter", "storage_offset"))


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
    """The placeholders of which some node of the graph may see more than their own elements."""
    if not any(map(_addresses_storage, gm.graph.nodes)):
        return frozenset()
    roots = input_roots(gm, _with_gaps_of)
    looked_at = (
        value
        for node in filter(_addresses_storage, gm.graph.nodes)
        for value in node.all_input_nodes[: 1 if isinstance(node.target, OpOverload) else None]
    )
    return frozenset().union(*(roots.get(value, ()) for value in looked_at))


def _with_gaps_of(node: Node) -> list[Node]:
    keeps = isinstance(node.target, OpOverload) and node.target._schema.name in _KEEPS_GAPS
    return node.all_input_nodes[:1] if keeps else []


def _addresses_storage(node: Node) -> bool:
    if isinstance(node.target, OpOverload):
        return node.target._schema.name in _ADDRESSING
    if node.op == "call_method":
        return node.target in _METHODS
    return any(_addresses_storage(inner) for body in bodies_of(node) for inner in body.graph.nodes)
