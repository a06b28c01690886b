"""Finds collectives on two streams which ranks may start in different orders.

A collective holds its stream until all ranks have started it. If rank 0 starts A then B, and rank 1, whose
streams happen to run differently, B then A, both wait forever.
"""

from __future__ import annotations

from typing import Final

from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_graph import named_arguments
from air_streams._clocks import Clocks
from air_streams._findings import CollectiveDeadlock
from air_streams._program import Program, works
from air_streams.errors import InvalidArgument

# Operators which name a communication group by one of these arguments are collectives.
_GROUP_ARGUMENTS: Final = ("group_name", "group", "hcom", "group_ep", "process_group", "hcom_name")

_registered: dict[OpOverload, str] = {}


def register_collective(op: OpOverload, group_argument: str) -> None:
    """Makes the deadlock check see an operator whose group argument has an unusual name."""
    if not isinstance(op, OpOverload):
        raise InvalidArgument(
            f"a collective is registered by its overload, got {op!r}",
            advice="give an overload, such as torch.ops.my_ops.all_gather.default",
        )
    if group_argument not in {argument.name for argument in op._schema.arguments}:
        raise InvalidArgument(
            f"{op} has no argument '{group_argument}'", advice=f"its schema is {op._schema}"
        )
    if op in _registered:
        raise InvalidArgument(
            f"{op} is registered already, with group argument '{_registered[op]}'",
            advice="register each operator once in a process",
        )
    _registered[op] = group_argument


def group_of(node: Node) -> str | None:
    """The communication group of a collective; None for any other node."""
    op = node.target
    if not isinstance(op, OpOverload):
        return None
    names = (_registered[op],) if op in _registered else _GROUP_ARGUMENTS
    taken = {argument.name for argument in op._schema.arguments}
    name = next((name for name in names if name in taken), None)
    return None if name is None else str(named_arguments(node, op).get(name))


def groups_of(module: GraphModule) -> tuple[str, ...]:
    """The communication groups that a graph and the graphs inside it name."""
    graphs = (inner.graph for inner in module.modules() if isinstance(inner, GraphModule))
    named = (group_of(node) for graph in graphs for node in graph.nodes)
    return tuple(dict.fromkeys(group for group in named if group is not None))


def find_deadlocks(program: Program, clocks: Clocks) -> tuple[CollectiveDeadlock, ...]:
    """Each collective with the latest unordered one of every other stream."""
    latest: dict[int, tuple[Node, str]] = {}
    found: list[CollectiveDeadlock] = []
    for node in works(program):
        group = group_of(node)
        if group is None:
            continue
        own = clocks.stamps[node].stream
        for other, (first, first_group) in latest.items():
            if other != own and clocks.concurrent(first, node):
                streams = program.stream[first], program.stream[node]
                found.append(CollectiveDeadlock(first, node, *streams, (first_group, group)))
        latest[own] = (node, group)
    return tuple(found)
