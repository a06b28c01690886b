"""The rules of the loader, checked before anything is loaded.

`verify(graph)` raises for a graph in memory; `verify_graph` gives what it breaks as values that name rule and node, and
`verify_model` does so for a parsed file.
"""

from __future__ import annotations

from air_geir.ir import Graph
from air_geir.verify._graph import verify_graph
from air_geir.verify._model import SIZE_LIMIT, verify_model
from air_geir.verify._violation import Violation, raise_for


def verify(graph: Graph) -> None:
    """Raises an error that lists the rules the graph breaks; does nothing when it breaks none."""
    raise_for(verify_graph(graph), f"graph {graph.name}")


__all__ = ["SIZE_LIMIT", "Violation", "raise_for", "verify", "verify_graph", "verify_model"]
