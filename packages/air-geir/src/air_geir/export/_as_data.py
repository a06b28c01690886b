"""A program of `torch.export` as Ascend IR in memory: the graph, its bytes, and what each node became."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch.export import ExportedProgram

from air_geir import file
from air_geir.export._export import finish, to_program
from air_geir.export._weights import embed
from air_geir.ir import Graph, Node
from air_geir.lowering import Table


@dataclass(frozen=True)
class Converted:
    """What an exported program became."""

    graph: Graph
    """The Ascend IR, verified, its weights included."""
    operators: Mapping[str, tuple[Node, ...]]
    """The operators that were made for a node of `functional`, by the node's name; empty for one that cost nothing."""
    functional: ExportedProgram
    """The program whose nodes `operators` speaks of: that of the caller without writes inside."""

    @property
    def message(self) -> bytes:
        """The graph as an `.air` file holds it, weights in line."""
        return file.to_bytes(self.graph)


def as_data(
    exported: ExportedProgram, *, name: str = "graph", decompositions: Table | None = None
) -> Converted:
    """Converts a program of `torch.export`, without a device, an engine or a file.

    Args:
        exported: the program; it stays as it is.
        name: name of the graph.
        decompositions: overloads to write with others, before converters and torch's own table.

    Operators that nothing translates are one `UnsupportedGraphError` that lists them all.
    """
    functional = exported.run_decompositions({})
    program, weights, _ = to_program(functional, name=name, decompositions=decompositions)
    embed(program, weights)
    finish(program)
    calls = [n.name for n in functional.graph.nodes if n.op == "call_function"]
    made: dict[str, list[Node]] = {name: [] for name in calls}
    for node in program.graph:
        if node.origin is not None and node.origin.fx in made:
            made[node.origin.fx].append(node)
    return Converted(program.graph, {name: tuple(nodes) for name, nodes in made.items()}, functional)
