"""Finds collectives on two streams which ranks may start in different orders.

A collective holds its stream until all ranks have started it. If rank 0 starts A then B, and rank 1, whose
streams happen to run differently, B then A, both wait forever.
"""

from __future__ import annotations

from typing import Final

from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_graph import group_argument_of, named_arguments, register_group_argument
from air_streams._clocks import Clocks
from air_streams._findings import CollectiveDeadlock
from air_streams._program import Program, works
from air_streams.errors import InvalidArgument

_registered: Final[set[OpOverload]] = set()


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
            f"{op} is registered already, with group argument '{group_argument_of(op)}'",
            advice="register each operator once in a process",
        )
    _registered.add(op)
    register_group_argument(op, group_argument)


def group_of(node: Node) -> str | None:
    """The communication group of a collective; None for any other node."""
    name = group_argument_of(node.target)
    if name is None or not isinstance(node.target, OpOverload):
        return None
    return str(named_arguments(node, node.target).get(name))


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
