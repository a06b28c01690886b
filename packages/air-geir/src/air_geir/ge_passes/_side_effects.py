"""Order of operators whose effect is not a value: printing, sending, prefetching."""

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
        changed = _chain(program.graph, nodes)
        place = {node: i for i, node in enumerate(program.graph)} if nodes else {}
        for node in nodes:
            for writer in _writers(node):
                first, second = sorted((node, writer), key=place.__getitem__)
                if first not in second.predecessors:
                    second.run_after(first)
                    changed += 1
        return PassResult(changed)


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


def _writers(node: Node) -> Iterator[Node]:
    """In-place operators that write a value this node reads."""
    for port in node.inputs:
        if port is None:
            continue
        for user, slot in port.uses:
            if user is not node and user.prototype and user.input_names[slot] in user.prototype.refs.values():
                yield user
