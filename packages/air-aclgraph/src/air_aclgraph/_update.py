"""Host parameters: values that an operator reads on the host and a replay may change.

The tiling of some attention kernels depends on sequence lengths.  Such a length is an input of the graph; as
long as it reaches nothing but updatable parameters (directly, or through arithmetic on the host), a captured
graph is patched with it instead of being captured once per length.  Which parameters of which operators is
the table of `air_fxpasses.tables`; its rows are checked against the operator's schema.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import SymBool, SymFloat, SymInt
from torch.fx import GraphModule, Node

from air_aclgraph._runtime import Runtime, UpdatableCall
from air_aclgraph._slots import Kind, Slot
from air_aclgraph.errors import UpdateRefused
from air_fxpasses.tables import updatable_of
from air_graph import source_of as where

Values = Sequence[Mapping[str, Any]]

_NUMBERS: Final = (SymInt, SymFloat, SymBool, int, float, bool)


@dataclass(frozen=True)
class UpdatePlan:
    """Which operators are updated, with which values, and which inputs the key may leave out.

    Operators that are given the same values, as the layers of a model are, get one mapping: it is made once a call.
    """

    calls: Mapping[Node, UpdatableCall]
    values: Callable[[Sequence[Any]], Values]
    keyless: frozenset[int]

    def substitutes(self, runtime: Runtime) -> dict[Node, Callable[..., Any]]:
        """What runs instead of the operators."""
        return {node: _caller(runtime, call) for node, call in self.calls.items()}


def _caller(runtime: Runtime, call: UpdatableCall) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        return runtime.updatable(call, args, kwargs)

    return run


def plan_updates(gm: GraphModule, slots: Sequence[Slot], runtime: Runtime) -> UpdatePlan | None:
    """The updates of a graph; None when it has no updatable operator whose values change."""
    index = {slot.node: slot.index for slot in slots}
    calls: dict[Node, UpdatableCall] = {}
    readers: dict[Node, list[Node]] = {}
    makers: list[list[tuple[str, Callable[[Sequence[Any]], Any]]]] = []
    place_of: dict[str, int] = {}
    order: list[int] = []
    for node in gm.graph.nodes:
        row = updatable_of(node.target) if node.op == "call_function" else None
        if row is None or not runtime.abilities.parameter_update:
            continue
        places = dict(zip(row.parameters, row.positions(node.target), strict=True))
        values = {name: _argument(node, name, place) for name, place in places.items()}
        changing = {name: value for name, value in values.items() if _nodes(value)}
        if changing:
            calls[node] = UpdatableCall(node.target, {name: places[name] for name in changing})
            readers[node] = _nodes(tuple(changing.values()))
            text = repr(changing)  # names of nodes are unique in a graph
            if text not in place_of:
                place_of[text] = len(makers)
                makers.append([(name, _maker(value, node, name, index)) for name, value in changing.items()])
            order.append(place_of[text])
    if not calls:
        return None
    keyless = frozenset(i for node, i in index.items() if _only_updates(node, readers, slots[i]))

    def values_of(args: Sequence[Any]) -> Values:
        made = [{name: make(args) for name, make in maker} for maker in makers]
        return [made[place] for place in order]

    return UpdatePlan(calls, values_of, keyless)


def _argument(node: Node, name: str, place: int | str) -> Any:
    if isinstance(place, int) and place < len(node.args):
        return node.args[place]
    return node.kwargs.get(name)


def _nodes(value: Any) -> list[Node]:
    nodes: list[Node] = []
    torch.fx.node.map_arg(value, nodes.append)
    return nodes


def _only_updates(node: Node, readers: Mapping[Node, Sequence[Node]], slot: Slot) -> bool:
    """Whether a number (or a CPU tensor) reaches nothing but updatable parameters."""
    if slot.kind not in (Kind.VALUE, Kind.HOST) or not node.users:
        return False
    pending, seen = [node], {node}
    while pending:
        value = pending.pop()
        for user in value.users:
            if user in readers:
                if _nodes((user.args, user.kwargs)).count(value) != readers[user].count(value):
                    return False
            elif not _is_number(user):
                return False
            elif user not in seen:
                seen.add(user)
                pending.append(user)
    return True


def _is_number(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.meta.get("val"), _NUMBERS)


def _maker(value: Any, at: Node, name: str, index: Mapping[Node, int]) -> Callable[[Sequence[Any]], Any]:
    """A function from the arguments of a call to the value of one parameter."""
    if isinstance(value, Node):
        if value in index:
            return operator.itemgetter(index[value])
        if not _is_number(value) or value.kwargs:
            raise UpdateRefused(
                f"{at.target}: {name} is computed by {value.target}, on the device or from tensors: a replay "
                "cannot be patched with a value the host does not have",
                where=where(at),
                advice="pass the value to the compiled function as an int, a list of ints or a CPU tensor",
                operator=str(at.target),
                parameter=name,
            )
        parts = [_maker(arg, at, name, index) for arg in value.args]
        target: Any = value.target
        return lambda args: target(*[part(args) for part in parts])
    if isinstance(value, (list, tuple)):
        items = [_maker(item, at, name, index) for item in value]
        return lambda args: [item(args) for item in items]
    return lambda args: value


def accepts(slot: Slot, plan: UpdatePlan | None) -> bool:
    """Whether a CPU tensor of an accelerator graph is nothing but a host parameter."""
    return slot.kind is not Kind.HOST or (plan is not None and slot.index in plan.keyless)
