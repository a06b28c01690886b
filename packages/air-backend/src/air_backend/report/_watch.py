"""Keeps what a page needs of a compilation while it goes on: graphs change afterwards, and executors do not keep them.

    with watching() as watches:
        compiled(*args)
    watches["graph_0"].pictures

Nothing is kept, and nothing costs anything, outside such a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from torch import fx

from air_backend.report._changes import Change, changes
from air_backend.report._memory import Memory, memory_of
from air_fxpasses import Copy, copies
from air_geir.dump import pictures_of
from air_geir.ir import Graph
from air_graph.page import Picture, bytes_of, picture_of


@dataclass
class Watch:
    """One graph: its pictures in the order in which they were made, and what the passes changed."""

    name: str
    pictures: list[Picture] = field(default_factory=list)
    memory: list[tuple[str, Memory]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    """What the graph still copies in each call, as the passes left it."""
    changed: list[tuple[str, list[Change]]] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    """Bytes of each input of the graph and of its pieces, by its name."""
    parts: int = 0

    def before(self, gm: fx.GraphModule) -> None:
        """The graph as AOTAutograd gave it."""
        self.pictures.append(picture_of(gm.graph, f"{self.name}, as AOTAutograd gave it"))
        self._measure(gm)

    def after(self, gm: fx.GraphModule) -> None:
        """The graph, or one piece of it, as the passes left it."""
        self.parts += 1
        self._measure(gm)
        piece = "" if self.parts == 1 else f", part {self.parts}"
        title = f"{self.name}{piece}, as the passes left it"
        self.pictures.append(picture_of(gm.graph, title))
        self.memory.append((title, memory_of(gm)))
        self.copies.extend(copies(gm))

    def _measure(self, gm: fx.GraphModule) -> None:
        for node in gm.graph.find_nodes(op="placeholder"):
            self.inputs[node.name] = bytes_of(node.meta.get("val"))

    def ascend_ir(self, stage: str, graph: Graph) -> None:
        """The Ascend IR graph after its own passes."""
        if stage == "optimized":
            self.pictures.extend(pictures_of(graph, f"{self.name}, Ascend IR"))

    def listing(self, name: str, before: str, after: str) -> None:
        """The text of the graph around one pass."""
        self.changed.append((name, changes(before, after) if before != after else []))


_watches: Final[ContextVar[dict[str, Watch] | None]] = ContextVar("air_watches", default=None)


@contextmanager
def watching() -> Iterator[dict[str, Watch]]:
    """Keeps what happens to every graph that is compiled inside, by its name."""
    watches: dict[str, Watch] = {}
    token = _watches.set(watches)
    try:
        yield watches
    finally:
        _watches.reset(token)


def watch_of(name: str) -> Watch | None:
    """Where to keep what happens to a graph; None where nobody watches."""
    watches = _watches.get()
    return None if watches is None else watches.setdefault(name, Watch(name))
