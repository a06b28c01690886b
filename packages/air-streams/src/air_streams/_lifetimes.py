"""Finds blocks that go back to their stream's pool while another stream may still use them.

The host drops a value after its last use in graph order. The allocator then gives the block to the next work on
the stream which allocated it: that work, and all after it on that stream, may write into it. A use on another
stream must be done by then, or the block must have been kept for that stream with `record_stream`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from torch.fx import Node

from air_streams._clocks import Clocks
from air_streams._findings import Lifetime
from air_streams._program import Program, works
from air_streams._races import value_in
from air_streams._steps import RecordStream, StreamId
from air_streams._storages import Storage


def find_lifetimes(program: Program, clocks: Clocks) -> tuple[Lifetime, ...]:
    """One finding per block and stream that is not safe, in the order in which the blocks are freed."""
    on_stream: dict[StreamId, list[Node]] = {}
    users: dict[Storage, dict[StreamId, Node]] = {}
    for node in works(program):
        stream = program.stream[node]
        on_stream.setdefault(stream, []).append(node)
        for access in program.memory.accesses[node]:
            users.setdefault(access.storage, {})[stream] = node
    kept = _kept(program)
    findings: list[Lifetime] = []
    for storage, by_stream in users.items():
        findings.extend(_of_storage(program, clocks, storage, by_stream, kept, on_stream))
    return tuple(sorted(findings, key=lambda found: program.index[found.second]))


def _kept(program: Program) -> set[tuple[Storage, StreamId]]:
    return {
        (storage, step.stream)
        for step in program.notes.values()
        if isinstance(step, RecordStream)
        for storage in program.memory.storages(step.tensor)
    }


def _of_storage(
    program: Program,
    clocks: Clocks,
    storage: Storage,
    by_stream: dict[StreamId, Node],
    kept: set[tuple[Storage, StreamId]],
    on_stream: dict[StreamId, list[Node]],
) -> Iterator[Lifetime]:
    allocator = storage.allocator
    if allocator is None or storage.is_output:
        return
    owner = program.stream[allocator]
    if set(by_stream) == {owner}:
        return
    freed_after = program.index[program.memory.last_use.get(storage, allocator)]
    queue = on_stream[owner]
    position = bisect_right(queue, freed_after, key=lambda node: program.index[node])
    if position == len(queue):
        return
    heir = queue[position]
    for stream, user in by_stream.items():
        if stream == owner or (storage, stream) in kept or clocks.happens_before(user, heir):
            continue
        value = value_in(program.memory, user, storage)
        yield Lifetime(user, heir, stream, owner, storage.name, value, owner)
