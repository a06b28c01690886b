"""Turns an operator with several results into the one that writes them into its arguments.

    k2, v2, y = update(k, v, x)        ->        y = update_(k, v, x);  k2 = k;  v2 = v

Each written argument is asked about on its own. One that must keep its old value is copied first, which
costs what the functional operator would have spent; the others are written where they are.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from air_fxpasses._facts import Facts
from air_fxpasses._refusal import Refusal
from air_fxpasses._sharing import may_share, share
from air_fxpasses.tables import Twin
from air_graph import arguments, named_arguments, same_extents

aten = torch.ops.aten


@dataclass(frozen=True)
class Written:
    """One tensor the in-place operator writes: where it is passed, and which result has its new value."""

    argument: str
    home: Node
    path: tuple[Any, ...]
    """Indices from the node to the result: the result's number, and the position in a list result."""


def written_by(node: Node, twin: Twin) -> list[Written] | None:
    """The tensors `twin.inplace` would write for this call; `None` when a result is not taken apart."""
    if any(user.target is not operator.getitem for user in node.users):
        return None
    given = named_arguments(node, twin.functional)
    single = len(twin.results) == 1
    found: list[Written] = []
    for index, name in enumerate(twin.results):
        if not isinstance(name, str):
            continue
        outer = () if single else (index,)
        value = given.get(name)
        if isinstance(value, Node):
            found.append(Written(name, value, outer))
        elif isinstance(value, (list, tuple)):
            items = enumerate(value)
            found.extend(Written(name, item, (*outer, i)) for i, item in items if isinstance(item, Node))
    return found if all(len(w.path) == 1 for w in found) else None


def conflict(facts: Facts, node: Node, home: Node) -> Refusal | None:
    """A kernel that writes `home` must not reach the same elements through another argument."""
    times = 0
    for _, argument in arguments(node):
        if argument is home:
            times += 1
        elif facts.may_overlap(argument, home):
            return Refusal.of(
                f"argument '{argument.name}' overlaps the memory it would write", node, argument
            )
    return Refusal.of("the same tensor is passed to it twice", node) if times > 1 else None


def write_in_place(
    facts: Facts, node: Node, twin: Twin, written: list[Written], into_inputs: bool
) -> bool | Refusal:
    """Replaces `node` by its mutating twin if at least one written argument needs no copy."""
    for entry in written:
        if (refusal := conflict(facts, node, entry.home)) is not None:
            return refusal
    results = [_result(facts, node, entry) for entry in written]
    verdicts = [
        may_share(facts, node, entry.home, result, into_inputs=into_inputs)
        for entry, result in zip(written, results, strict=True)
    ]
    refused = [v for v in verdicts if isinstance(v, Refusal)]
    if len(refused) == len(verdicts) or (refused and twin.is_list):
        return refused[0]
    for entry, result, verdict in zip(written, results, verdicts, strict=True):
        if isinstance(verdict, Refusal) and not _copy_has_layout_of(facts, entry.home, result):
            return verdict
    homes = [
        _settled(facts, node, entry, result, into_inputs)
        for entry, result in zip(written, results, strict=True)
    ]
    _rebuild(facts, node, twin, written, results, homes)
    return True


def _result(facts: Facts, node: Node, entry: Written) -> Node:
    """The `getitem` that takes the new value out of the results; made where there is none."""
    for user in node.users:
        if user.args[1] == entry.path[0]:
            return user
    return facts.insert_before(node.next, operator.getitem, (node, entry.path[0]), stands_for=node)


def _copy_has_layout_of(facts: Facts, home: Node, result: Node) -> bool:
    with facts.values.active():
        copy = torch.clone(facts.value(home))
    return same_extents(copy.stride(), facts.value(result).stride())


def _settled(facts: Facts, node: Node, entry: Written, result: Node, into_inputs: bool) -> Node:
    """Where the new value lives: the argument itself, or a copy of it."""
    if share(facts, node, entry.home, result, into_inputs=into_inputs) is None:
        return entry.home
    copy = facts.insert_before(node, aten.clone.default, (entry.home,))
    facts.relocate(result, facts.value(copy))
    return copy


def _rebuild(
    facts: Facts, node: Node, twin: Twin, written: list[Written], results: list[Node], homes: list[Node]
) -> None:
    moved = {entry.home: home for entry, home in zip(written, homes, strict=True)}
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: moved.get(n, n))
    call = facts.insert_before(node, twin.inplace, args, kwargs)
    for result, home in zip(results, homes, strict=True):
        facts.replace(result, home)
    several = len(twin.inplace._schema.returns) > 1
    for user in list(node.users):
        index = twin.results[_number(user)]
        new = facts.insert_before(node, operator.getitem, (call, index)) if several else call
        facts.replace(user, new)
    facts.erase(node)


def _number(getitem: Node) -> int:
    index = getitem.args[1]
    return index if isinstance(index, int) else 0
