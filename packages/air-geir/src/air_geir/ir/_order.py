"""Topological order of a graph's nodes."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from air_geir.errors import GraphError

if TYPE_CHECKING:
    from air_geir.ir._graph import Graph
    from air_geir.ir._node import Node


def topological(graph: Graph) -> list[Node]:
    """Nodes in an order in which each comes after what it needs; program order decides where that leaves a choice."""
    place = {node: i for i, node in enumerate(graph)}
    nodes = list(place)
    waiting = [sum(1 for _ in node.predecessors) for node in nodes]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.successors:
            at = place[user]
            waiting[at] -= 1
            if waiting[at] == 0:
                heapq.heappush(ready, at)
    if len(order) != len(nodes):
        stuck = [n.name for n, count in zip(nodes, waiting, strict=True) if count]
        raise GraphError(
            f"graph {graph.name} has a cycle through {', '.join(stuck[:8])}",
            advice="remove one of the edges, data or control, between them",
        )
    return order
