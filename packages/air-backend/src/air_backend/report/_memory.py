"""The memory of a graph's own results over its nodes: what is alive when, and what makes the peak.

Counted from the graph: a storage is alive from the node that makes it to the last one that touches it, and what is
returned to the end. The pool of a capture is at least so large; the allocator rounds up and keeps blocks apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from torch import fx

from air_fxpasses import Facts
from air_graph import source_of
from air_graph.page import bytes_of

LARGEST: Final = 60


@dataclass(frozen=True)
class Memory:
    """Bytes alive at each node, and what is alive at the peak: name, bytes, line."""

    names: tuple[str, ...]
    sources: tuple[str, ...]
    live: tuple[int, ...]
    peak: int
    largest: tuple[tuple[str, int, str], ...]

    @property
    def peak_bytes(self) -> int:
        """The most that is alive at once."""
        return self.live[self.peak] if self.live else 0


def memory_of(gm: fx.GraphModule) -> Memory:
    """The memory of one graph."""
    nodes = list(gm.graph.nodes)
    blocks = list(_blocks(gm, nodes))
    delta = [0] * (len(nodes) + 1)
    for _, first, last, size in blocks:
        delta[first] += size
        delta[last + 1] -= size
    live, now = [], 0
    for change in delta[:-1]:
        now += change
        live.append(now)
    peak = max(range(len(live)), key=live.__getitem__, default=0)
    there = sorted((b for b in blocks if b[1] <= peak <= b[2]), key=lambda block: -block[3])[:LARGEST]
    largest = tuple((node.name, size, str(source_of(node) or "")) for node, _, _, size in there)
    names = tuple(node.name for node in nodes)
    return Memory(names, tuple(str(source_of(node) or "") for node in nodes), tuple(live), peak, largest)


def _blocks(gm: fx.GraphModule, nodes: list[fx.Node]) -> Iterator[tuple[fx.Node, int, int, int]]:
    """Each storage the graph makes: its first node, where it begins and ends, and its bytes."""
    facts = Facts(gm)
    at = {node: place for place, node in enumerate(nodes)}
    known = set()
    for node in nodes:
        storage = facts.storage(node) if node.op == "call_function" else None
        if storage is None or storage in known or facts.input_of(storage) is not None:
            continue
        known.add(storage)
        first, last = facts.lifetime(node)
        members = facts.members(storage)
        returned = any(user.op == "output" for member in members for user in member.users)
        size = max(bytes_of(member.meta.get("val")) for member in members)
        yield node, at[first], len(nodes) - 1 if returned else max(at[last], at[first]), size
