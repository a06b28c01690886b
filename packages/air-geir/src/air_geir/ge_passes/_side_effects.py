"""Order of operators whose effect is not a value: printing, sending, meeting other ranks, prefetching."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from air_geir.ge_passes._pass import PassResult
from air_geir.ir import Graph, Node
from air_geir.program import Program

SIDE_EFFECTS = frozenset({"PrintV2", "AttentionToFFN", "FFNToAttention"})
"""Operators that must run, and in program order."""
PREFETCHES = frozenset({"Cmo"})
"""Operators that move data towards the cores ahead of time."""


@dataclass(frozen=True)
class OrderSideEffects:
    """Side effects keep program order, among each other and against writers of what they read.

    The last of them is tied to the output, which keeps all of them alive.
    """

    name: str = "order_side_effects"

    def __call__(self, program: Program) -> PassResult:
        """Add the control edges."""
        nodes = list(program.graph.of_type(*SIDE_EFFECTS))
        return PassResult(_chain(program.graph, nodes) + _among_writers(program.graph, nodes))


@dataclass(frozen=True)
class KeepCollectives:
    """Collectives whose results nobody takes run all the same: the other ranks wait for them.

    Those of a group that has such a one keep program order, and the last of them is tied to the output.
    """

    name: str = "keep_collectives"

    def __call__(self, program: Program) -> PassResult:
        """Add the control edges."""
        graph = program.graph
        by_group: dict[str, list[Node]] = {}
        for node in graph:
            if "group" in node.attrs:
                by_group.setdefault(str(node.attr("group")), []).append(node)
        needed = _needed(graph) if by_group else frozenset()
        kept = [nodes for nodes in by_group.values() if not needed.issuperset(nodes)]
        return PassResult(sum(_chain(graph, nodes) + _among_writers(graph, nodes) for nodes in kept))


@dataclass(frozen=True)
class OrderPrefetches:
    """Prefetches run in program order; the last of them is tied to the output."""

    name: str = "order_prefetches"

    def __call__(self, program: Program) -> PassResult:
        """Add the control edges."""
        return PassResult(_chain(program.graph, list(program.graph.of_type(*PREFETCHES))))


def _chain(graph: Graph, nodes: Sequence[Node]) -> int:
    links = list(zip(nodes, [*nodes[1:], graph.net_output], strict=True)) if nodes else []
    missing = [(a, b) for a, b in links if a not in b.control_inputs]
    for first, second in missing:
        second.run_after(first)
    return len(missing)


def _needed(graph: Graph) -> frozenset[Node]:
    """What the output needs, through values and control edges."""
    needed = {graph.net_output}
    for node in reversed(list(graph)):
        if node in needed:
            needed.update(node.predecessors)
    return frozenset(needed)


def _among_writers(graph: Graph, nodes: Sequence[Node]) -> int:
    """Ties each to those that write what it reads, in program order."""
    place = {node: i for i, node in enumerate(graph)} if nodes else {}
    changed = 0
    for node in nodes:
        for writer in _writers(node):
            first, second = sorted((node, writer), key=place.__getitem__)
            if first not in second.predecessors:
                second.run_after(first)
                changed += 1
    return changed


def _writers(node: Node) -> Iterator[Node]:
    """In-place operators that write a value this node reads."""
    for port in node.inputs:
        if port is None:
            continue
        for user, slot in port.uses:
            if user is not node and user.prototype and user.input_names[slot] in user.prototype.refs.values():
                yield user
