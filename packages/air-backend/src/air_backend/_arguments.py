"""The arguments of a graph as the program knows them: their names, and the line that uses each first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from air_graph import SourceLine, source_of


@dataclass(frozen=True)
class Arguments:
    """The names of all arguments, and where each is used."""

    names: tuple[str, ...] = ()
    lines: tuple[SourceLine | None, ...] = ()

    @classmethod
    def of(cls, gm: GraphModule) -> Arguments:
        """As Dynamo has noted them in its graph."""
        places = gm.graph.find_nodes(op="placeholder")
        lines = tuple(next(filter(None, map(source_of, node.users)), None) for node in places)
        return cls(tuple(map(_name, places)), lines)

    def short(self) -> Arguments:
        """The same for a file: lines without the calls that lead to them."""
        return Arguments(self.names, tuple(line and _alone(line) for line in self.lines))

    def named(self, places: Iterable[int]) -> tuple[str, ...]:
        """The names of some."""
        return tuple(self.names[place] for place in places)

    def line(self, places: Sequence[int]) -> SourceLine | None:
        """A line of the user's that uses one of some."""
        return next(filter(None, (self.lines[place] for place in places)), None)


def _alone(line: SourceLine) -> SourceLine:
    return SourceLine.at(line.file, line.line, line.code)


def _name(node: Node) -> str:
    """As the program calls an argument, where Dynamo has noted it."""
    name = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", node.name)
    return str(name() if callable(name) else name)  # a method up to torch 2.11
