"""Operators that see more of the memory behind a value than its elements.

    x = base[2:6];  x.as_strided((2,), (1,), 3)    # elements 3 and 4 of the base, whatever x is

`as_strided` and its like count from the start of the storage.  A scatter copies what lies round the elements of its
base, so what addresses its result sees that as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from torch._ops import OpOverload
from torch.fx import Node

from air_graph._effects import keeps_gaps
from air_graph._links import owner_of
from air_graph._uses import bodies_of

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
_METHODS: Final = frozenset(("as_strided", "as_strided_", "as_strided_scatter", "storage_offset"))


def addresses_storage(node: Node) -> bool:
    """Whether a node counts elements of its first argument from the start of the storage."""
    if isinstance(node.target, OpOverload):
        return node.target._schema.name in _ADDRESSING
    if node.op == "call_method":
        return node.target in _METHODS
    return any(addresses_storage(inner) for body in bodies_of(node) for inner in body.graph.nodes)


def copies_with_gaps(node: Node) -> Iterator[Node]:
    """The scatters that made the memory which a node addresses, the last one first.

    Each copied what lies round the elements of the one before.
    """
    if addresses_storage(node) and node.args:
        yield from _scatters(node.args[0])


def surroundings_of(node: Node) -> Node | None:
    """The value that owns the memory which the scatters behind a node copied, with what lies round the elements.

    None when the node lies in the result of no scatter.  The result of a scatter begins as far into its storage as the
    copied value does.
    """
    scatters = list(_scatters(node))
    copied = scatters[-1].args[0] if scatters else None
    return owner_of(copied) if isinstance(copied, Node) else None


def _scatters(value: Any) -> Iterator[Node]:
    """The scatter whose result a value lies in, the scatter whose result that one copied, and so on."""
    while isinstance(value, Node):
        owner = owner_of(value)
        if not keeps_gaps(owner.target):
            return
        yield owner
        value = owner.args[0]
