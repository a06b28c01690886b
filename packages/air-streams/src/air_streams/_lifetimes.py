"""Finds blocks that go back to their stream's pool while another stream may still use them.

The host drops a value after its last use in graph order. The allocator then gives the block to the next work on
the stream which allocated it: that work, and all after it on that stream, may write into it. A use on another
stream must be done by then, or the block must have been kept for that stream with `record_stream`.

An executor keeps more blocks than those. Two streams of a program may be one stream of the device (torch's pool has
32 of them, and the one that captures is of the pool as well), and then what the one frees goes to work of the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from torch.fx import Node

from air_streams._clocks import Clocks
from air_streams._findings import Lifetime, UnknownStream
from air_streams._program import Program, works
from air_streams._races import value_in
from air_streams._registry import is_used
from air_streams._steps import RecordStream, StreamId
from air_streams._storages import Storage


def find_lifetimes(program: Program, clocks: Clocks) -> tuple[Lifetime, ...]:
    """One finding per block and stream that is not safe, in the order in which the blocks are freed."""
    found = _Blocks(program, clocks).lifetimes()
    return tuple(sorted(found, key=lambda each: program.index[each.second]))


def blocks_to_keep(program: Program, clocks: Clocks) -> dict[Node, tuple[RecordStream, ...]]:
    """After which nodes an executor keeps which values for a stream, whichever of the device's streams are one."""
    found: dict[tuple[Node, Node, StreamId], RecordStream] = {}
    for each in _Blocks(program, clocks).lifetimes(anywhere=True):
        found[each.first, each.value, each.first_stream] = RecordStream(each.value, each.first_stream)
    after: dict[Node, tuple[RecordStream, ...]] = {}
    for (node, _, _), step in found.items():
        after[node] = (*after.get(node, ()), step)
    return after


class _Blocks:
    """Who uses which block, and the work of each stream."""

    def __init__(self, program: Program, clocks: Clocks) -> None:
        self._program = program
        self._clocks = clocks
        self._kept = _kept(program)
        self._work: dict[StreamId, list[Node]] = {}
        self._users: dict[Storage, dict[StreamId, Node]] = {}
        for node in works(program):
            stream = program.stream[node]
            self._work.setdefault(stream, []).append(node)
            for access in program.memory.accesses[node]:
                self._users.setdefault(access.storage, {})[stream] = node

    def lifetimes(self, *, anywhere: bool = False) -> Iterator[Lifetime]:
        """A finding for each block and stream; `anywhere`: also where another stream than its own gets the block."""
        for storage, by_stream in self._users.items():
            allocator = storage.allocator
            if allocator is None or storage.is_output:
                continue
            owner = self._program.stream[allocator]
            freed_after = self._program.memory.last_use.get(storage, allocator)
            for stream, user in by_stream.items():
                if stream == owner or (storage, stream) in self._kept:
                    continue
                heir = self._heir(
                    user, freed_after, [s for s in self._work if s != stream] if anywhere else [owner]
                )
                if heir is not None:
                    value = value_in(self._program.memory, user, storage)
                    yield Lifetime(user, heir, stream, owner, storage.name, value, owner)

    def _heir(self, user: Node, freed_after: Node, streams: Iterable[StreamId]) -> Node | None:
        """The first work on one of the streams that may get the block while `user` runs."""
        index = self._program.index
        for stream in streams:
            queue = self._work.get(stream, [])
            position = bisect_right(queue, index[freed_after], key=lambda node: index[node])
            if position < len(queue) and not self._clocks.happens_before(user, queue[position]):
                return queue[position]
        return None


def find_unknown_streams(program: Program) -> tuple[UnknownStream, ...]:
    """Where the program keeps memory for a stream that neither this graph nor anything before it uses."""
    used = tuple(stream.tag for stream in program.streams if not stream.is_entry)
    return tuple(
        UnknownStream(node, node, program.stream[node], program.stream[node], step.stream, used)
        for node, step in program.notes.items()
        if isinstance(step, RecordStream)
        and step.stream not in program.streams
        and not is_used(step.stream.tag)
    )


def _kept(program: Program) -> set[tuple[Storage, StreamId]]:
    return {
        (storage, step.stream)
        for step in program.notes.values()
        if isinstance(step, RecordStream)
        for storage in program.memory.storages(step.tensor)
    }
