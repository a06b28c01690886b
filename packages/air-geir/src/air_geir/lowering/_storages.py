"""Whose memory a value of an FX graph lies in: the value that owns it, and the views between the two.

What an operator does is read from its schema. Where a schema says "perhaps" (operators that are composed of others,
such as `reshape`), the storages of the example values decide. Nothing here knows Ascend IR.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import fx

aten = torch.ops.aten

Kind = Literal["view", "item", "again", "same"]

_AGAIN: Final = frozenset({aten.alias.default, aten.detach.default, aten.lift_fresh.default})
"""Another tensor object over the same memory, with the same layout."""
_UNDECLARED: Final = frozenset({aten._unsafe_view.default})
"""Views whose schema does not say so."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a value that has no memory of its own is made from the value it lies in."""

    node: fx.Node
    base: fx.Node
    kind: Kind
    """`view`: the operator makes one or several views; `item`: one of several views; `again`: another tensor object
    over the same elements; `same`: the very argument, after an operator wrote to it."""


def link_of(node: fx.Node) -> Link | None:
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


def _item(node: fx.Node) -> Link | None:
    source, index = node.args
    if not isinstance(source, fx.Node) or not isinstance(source.target, torch._ops.OpOverload):
        return None
    if len(source.target._schema.returns) > 1:
        return _result(node, source, int(index))  # type: ignore[arg-type]  # the index of a result is a number
    return Link(node, source, "item") if link_of(source) is not None else None


def _result(node: fx.Node, call: fx.Node, index: int) -> Link | None:
    """The link of one result of an operator, by what the schema says about it."""
    op: Any = call.target
    if op in _UNDECLARED:
        return _linked(node, call.args[0], "view")
    declared = op._schema.returns[index].alias_info
    if declared is None:
        return None
    base = _aliased(call, declared)
    if declared.is_write:
        return _linked(node, base, "same")
    if node is not call or not isinstance(base, fx.Node):
        return None
    if _is_composed(op) and not shares_storage(node, base):
        return None
    return _linked(node, base, "again" if op in _AGAIN else "view")


def _linked(node: fx.Node, base: object, kind: Kind) -> Link | None:
    return Link(node, base, kind) if isinstance(base, fx.Node) else None


def _aliased(call: fx.Node, declared: Any) -> object:
    """What was given for the argument that a result is declared to alias."""
    op: Any = call.target
    for position, argument in enumerate(op._schema.arguments):
        info = argument.alias_info
        if info is None or (declared.before_set and not declared.before_set & info.before_set):
            continue
        return call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
    return None


def _is_composed(op: torch._ops.OpOverload) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"))


def links_of(node: fx.Node) -> Iterator[Link]:
    """The links from a value to the one that owns its memory, the nearest first."""
    link = link_of(node)
    while link is not None:
        yield link
        link = link_of(link.base)


def owner_of(node: fx.Node) -> fx.Node:
    """The value whose memory this one lies in; itself when it has its own."""
    for link in links_of(node):
        node = link.base
    return node


def shares_storage(one: fx.Node, other: fx.Node) -> bool:
    """Whether the example values of two nodes lie in one storage."""
    first, second = one.meta.get("val"), other.meta.get("val")
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return False
    return bool(first.untyped_storage()._cdata == second.untyped_storage()._cdata)
