"""The numbers that a report begins with: how many graphs, pieces, captures and breaks one call has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["captures", "captures_of", "counts_of"]


def counts_of(happened: Mapping[str, Any], graphs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Of the parts of a report, by the names that people read."""
    return {
        "graphs": len(graphs),
        "graph breaks": sum(each["count"] for each in happened["graph breaks"]),
        "calls run eagerly": sum(happened["calls run eagerly"].values()),
        "pieces": sum(graph["pieces"] for graph in graphs),
        "captures": sum(map(captures, graphs)),
        "operators run eagerly": sum(len(graph.get("eager", ())) for graph in graphs),
    }


def captures(graph: Mapping[str, Any]) -> int:
    """How many captures a graph has, those of its pieces together."""
    return sum(len(part.get("keys", ())) for part in captures_of(graph))


def captures_of(graph: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What captures say about themselves: that of the graph, or those of its pieces."""
    own = graph.get(graph["executor"])
    if not isinstance(own, Mapping):
        return []
    pieces = own.get("pieces", {})
    return [own, *(each for each in pieces.values() if isinstance(each, Mapping))]
