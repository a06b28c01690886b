"""What follows when a value gets another layout: which values are laid out otherwise then, and who would notice.

y = fused(x)           # lies turned now
z = exp(y)             # lies as y does: turned as well
u = mm(z, w)           # lies as it did: here it ends

v = view(z, [12])      # has no such view of a turned value: the layout must stay
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from air_fxpasses._facts import Facts
from air_fxpasses._same_value import is_same_value
from air_fxpasses.errors import NoFakeValue
from air_graph import addresses_storage, leaf_storages, same_extents

aten = torch.ops.aten

#: The libraries whose operators take arguments however they lie.
_TAKE_ANY_LAYOUT: Final = ("aten", "prims", "npu")
_ASK_THE_LAYOUT: Final = (aten.sym_stride.default, aten.sym_stride.int)
_NOTICED: Final = object()


Noticed = dict[Node, tuple[Any, Node]]
"""Nodes with the strides that they must not have, and who would notice: many matches ask about the same nodes."""


def relaid(
    facts: Facts, moved: Mapping[Node, Tensor], but: Sequence[Node] = (), noticed: Noticed | None = None
) -> list[Node] | Node:
    """The nodes whose layout follows from the new one of others, in program order; or the first that would notice.

    Those of `but` will be gone. `noticed` is what earlier questions about this graph found.
    """
    known: Noticed = {} if noticed is None else noticed
    before: dict[Node, Any] = {node: node.meta["val"] for node in moved}
    seen = set(but)
    waiting: list[Node] = []

    def reach(node: Node) -> None:
        for user in node.users:
            if user not in seen:
                seen.add(user)
                heapq.heappush(waiting, user)

    try:
        for node, value in moved.items():
            if (reader := _known_reader(known, node, value)) is not None:
                return reader
            node.meta["val"] = value
            reach(node)
        while waiting:
            user = heapq.heappop(waiting)
            after = _value(facts, user)
            reader = user if after is _NOTICED else _known_reader(known, user, after)
            if reader is not None:
                _remember(known, before, user, reader)
                return reader
            if is_same_value(user.meta["val"], after, user):
                continue
            before[user], user.meta["val"] = user.meta["val"], after
            reach(user)
    finally:
        for changed, old in before.items():
            changed.meta["val"] = old
    return [node for node in before if node not in moved]


def _known_reader(known: Noticed, node: Node, value: Any) -> Node | None:
    """Who would notice that a node has this layout, if that was found before."""
    strides, reader = known.get(node, (None, None))
    return reader if strides and isinstance(value, Tensor) and same_extents(strides, value.stride()) else None


def _remember(known: Noticed, moved: Mapping[Node, Any], user: Node, reader: Node) -> None:
    """Notes the nodes that moved and from which this user follows."""
    waiting = [user]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            value = source.meta.get("val")
            if source in moved and source not in known and isinstance(value, Tensor):
                known[source] = value.stride(), reader
                waiting.append(source)


def lay_out_again(facts: Facts, nodes: list[Node]) -> None:
    """Gives these nodes the example values that their arguments give now; views of what moved have moved along."""
    for node in nodes:
        value = facts.values.evaluate(node)
        if not is_same_value(node.meta["val"], value, node):
            facts.relocate(node, value)


def _value(facts: Facts, user: Node) -> Any:
    """What a user gives for arguments that lie as they lie now; `_NOTICED` where it would tell the difference."""
    if _notices(user):
        return _NOTICED
    if "unbacked_bindings" in user.meta:
        return user.meta["val"]
    try:
        value = facts.values.evaluate(user)
    except NoFakeValue:
        return _NOTICED
    return _NOTICED if _makes_several(user, user.meta["val"], value) else value


def _makes_several(user: Node, before: Any, values: Any) -> bool:
    """Whether these are several values that lie otherwise, and are no views."""
    if isinstance(values, Tensor) or is_same_value(before, values, user):
        return False
    theirs = {storage for source in user.all_input_nodes for storage in leaf_storages(source.meta.get("val"))}
    return not theirs.issuperset(leaf_storages(values))


def _notices(user: Node) -> bool:
    """Whether strides matter to a user that is the caller, counts elements of the storage, or may do anything."""
    if not isinstance(user.target, OpOverload):
        return user.target is not operator.getitem
    return (
        user.target in _ASK_THE_LAYOUT
        or user.target.namespace not in _TAKE_ANY_LAYOUT
        or addresses_storage(user)
    )
