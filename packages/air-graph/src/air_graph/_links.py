"""Which memory a value of an FX graph uses: the value that owns it, and the views between the two.

Where an operator may copy or not (`reshape`), the storages of the example values decide.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch.fx import Node

from air_graph._effects import Effects, effects_of
from air_graph._storage import storage_key

aten = torch.ops.aten

Kind = Literal["view", "item", "again", "same"]

_AGAIN: Final = frozenset({aten.alias.default, aten.detach.default, aten.lift_fresh.default})
"""Another tensor object over the same memory, with the same layout."""


_COMPUTED: Final = frozenset({torch.ops.prims.real.default, torch.ops.prims.imag.default})
"""Views by their schema, of which example values are values of their own."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a value that has no memory of its own is made from the value it lies in."""

    node: Node
    base: Node
    kind: Kind
    """`view`: the operator makes one or several views; `item`: one of several views; `again`: another tensor object
    over the same elements; `same`: the very argument, after an operator wrote to it."""


def link_of(node: Node) -> Link | None:
    """The value that this one lies in; None when it has memory of its own."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        return _item(node)
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.returns:
        return None
    if len(node.target._schema.returns) > 1:
        return None
    return _result(node, node, 0)


def _item(node: Node) -> Link | None:
    source, index = node.args
    if not isinstance(source, Node) or not isinstance(source.target, torch._ops.OpOverload):
        return None
    if len(source.target._schema.returns) > 1:
        return _result(node, source, int(index))  # type: ignore[arg-type]  # the index of a result is a number
    return Link(node, source, "item") if link_of(source) is not None else None


def _result(node: Node, call: Node, index: int) -> Link | None:
    """The link of one result of an operator, by its effects."""
    op: Any = call.target
    effects = effects_of(op)
    sets = effects.returns[index] if index < len(effects.returns) else frozenset()
    base, written = _aliased(call, effects, sets)
    if base is None or op in _COMPUTED:
        return None
    if written:
        return Link(node, base, "same")
    if node is not call or (effects.may_copy and not shares_storage(node, base)):
        return None
    return Link(node, base, "again" if op in _AGAIN else "view")


def _aliased(call: Node, effects: Effects, sets: frozenset[str]) -> tuple[Node | None, bool]:
    """What was given for the argument in whose memory a result lies, and whether that argument is written."""
    for argument in effects.arguments:
        if argument.aliases & sets:
            given = argument.given(call.args, call.kwargs)
            return (given, argument.writes) if isinstance(given, Node) else (None, False)
    return None, False


def links_of(node: Node) -> Iterator[Link]:
    """The links from a value to the one that owns its memory, the nearest first."""
    link = link_of(node)
    while link is not None:
        yield link
        link = link_of(link.base)


def owner_of(node: Node) -> Node:
    """The value whose memory this one lies in; itself when it has its own."""
    for link in links_of(node):
        node = link.base
    return node


def shares_storage(one: Node, other: Node) -> bool:
    """Whether the example values of two nodes lie in one storage."""
    first, second = one.meta.get("val"), other.meta.get("val")
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return False
    return storage_key(first) == storage_key(second)
