"""How many bytes a graph moves to keep values apart: its copies, counted and measured.

A copy is a call that stores a whole tensor which is, except for the part that was meant to change, a value that
existed before: `clone`, `copy_`, the functional scatters and the functional forms of in-place operators on
memory that outlives them. What is counted is what a reinplacing pass can save.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses.tables import twin_of
from air_graph import SCATTERS, bytes_of

aten = torch.ops.aten

_COPIES: Final[frozenset[Any]] = frozenset(
    (aten.clone.default, aten.copy_.default, aten.copy.default, *SCATTERS)
)
_UPDATES: Final[frozenset[str]] = frozenset(
    ("index_put", "index_copy", "scatter", "index_fill", "masked_scatter")
)


@dataclass(frozen=True)
class Copy:
    """One call that stores a whole tensor."""

    node: str
    target: str
    bytes_moved: int


def copies(gm: GraphModule, facts: Facts | None = None, at_least_bytes: int = 0) -> tuple[Copy, ...]:
    """The calls of a graph that copy at least that many bytes; symbolic sizes count with their hints."""
    known = facts or Facts(gm)
    found = []
    for node in gm.graph.nodes:
        value = known.tensor(node) if _stores_a_copy(node) else None
        moved = 0 if value is None else bytes_of(value)
        if value is not None and moved >= at_least_bytes:
            found.append(Copy(node.name, str(node.target), moved))
    return tuple(found)


def _stores_a_copy(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target in _COPIES:
        return True
    twin = twin_of(node.target)
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    return twin is not None and (name in _UPDATES or not twin.returns_self)
