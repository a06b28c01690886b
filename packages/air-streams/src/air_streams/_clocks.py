"""Happens-before by vector clocks: what is certainly done before a node starts.

Every point of a stream (work, record, wait) has a place in it. A stream knows, for each other stream, up to
which place that one is certainly done; only waits add to this knowledge, so it is shared between the points
from one wait to the next, and the whole pass is linear in the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import Node

from air_streams._program import Program
from air_streams._steps import ENTRY, StreamId

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Stamp:
    """A node's place in its stream, and what was known of the others when it was issued."""

    stream: int
    place: int
    known: tuple[int, ...]


@dataclass
class Clocks:
    """The stamps of all nodes, and where the plan had to fork and join."""

    streams: dict[StreamId, int]
    stamps: dict[Node, Stamp]
    index: dict[Node, int]
    forks: dict[Node, StreamId]
    joins: tuple[tuple[StreamId, Node], ...]

    def happens_before(self, a: Node, b: Node) -> bool:
        """Whether `a` is certainly done when `b` starts."""
        first, second = self.stamps[a], self.stamps[b]
        if first.stream == second.stream:
            return self.index[a] < self.index[b]
        return self.index[a] < self.index[b] and first.place <= second.known[first.stream]

    def concurrent(self, a: Node, b: Node) -> bool:
        """Whether nothing orders the two."""
        return a is not b and not self.happens_before(a, b) and not self.happens_before(b, a)


class Clock:
    """One pass over a program. `before_work` is called before each work node is stamped, and may `learn`."""

    def __init__(self, program: Program, before_work: Callable[[Clock, Node], None] | None = None) -> None:
        self.program = program
        self.before_work = before_work
        self.streams = {stream: number for number, stream in enumerate(program.streams)}
        count = len(self.streams)
        self.place = [0] * count
        self.known = [(_UNKNOWN,) * count for _ in range(count)]
        self.last: list[Node | None] = [None] * count
        self.stamps: dict[Node, Stamp] = {}
        self.forks: dict[Node, StreamId] = {}
        self.joins: tuple[tuple[StreamId, Node], ...] = ()
        entry = self.streams[ENTRY]
        self.known[entry] = tuple(0 if number == entry else _UNKNOWN for number in range(count))

    def knows(self, stream: int, stamp: Stamp) -> bool:
        """Whether work issued now on `stream` certainly starts after the stamped point is done."""
        return stream == stamp.stream or stamp.place <= self.known[stream][stamp.stream]

    def learn(self, stream: int, source: Stamp) -> None:
        """What a wait on `stream` for the stamped point adds."""
        merged = [max(a, b) for a, b in zip(self.known[stream], source.known, strict=True)]
        merged[source.stream] = max(merged[source.stream], source.place)
        self.known[stream] = tuple(merged)

    def run(self) -> Clocks:
        """Stamps every node."""
        join_at = self.program.join_node()
        for node in self.program.order:
            if node is join_at:
                self._join()
            self._visit(node)
        return Clocks(self.streams, self.stamps, self.program.index, self.forks, self.joins)

    def _visit(self, node: Node) -> None:
        stream = self.streams.get(self.program.stream[node])
        if stream is None:
            # A scope with nothing to do on the device: its nodes are the host's.
            stream = self.streams[ENTRY]
        if self.program.is_point(node):
            for dependency in self.program.waits.get(node, ()):
                self.learn(stream, self.stamps[dependency.source])
            self._fork_if_missing(node, stream)
            if self.before_work is not None and self.program.is_work(node):
                self.before_work(self, node)
            self.place[stream] += 1
            self.last[stream] = node
        self.stamps[node] = Stamp(stream, self.place[stream], self.known[stream])

    def _fork_if_missing(self, node: Node, stream: int) -> None:
        entry = self.streams[ENTRY]
        if stream != entry and self.known[stream][entry] == _UNKNOWN:
            self.forks[node] = self.program.stream[node]
            done = len(self.program.heads)
            self.known[stream] = tuple(
                max(seen, done) if number == entry else seen for number, seen in enumerate(self.known[stream])
            )

    def _join(self) -> None:
        entry = self.streams[ENTRY]
        chosen: list[tuple[StreamId, Node]] = []
        names = {number: stream for stream, number in self.streams.items()}
        ends = [
            (number, last) for number, last in enumerate(self.last) if last is not None and number != entry
        ]
        # The stream whose last point comes latest may cover the others, never the other way round.
        for number, last in sorted(ends, key=lambda end: -self.program.index[end[1]]):
            if self.stamps[last].place > self.known[entry][number]:
                chosen.append((names[number], last))
                self.learn(entry, self.stamps[last])
        self.joins = tuple(sorted(chosen, key=lambda join: self.streams[join[0]]))


def read_clocks(program: Program) -> Clocks:
    """Stamps every node of a program; adds the forks and joins that a capture needs."""
    return Clock(program).run()
