"""Finds conflicting accesses which nothing orders, and with them the waits that are missing.

A read and a write of the same bytes on two streams must be ordered. Two writes must be ordered if the later
one is ever seen: read before something overwrites it, or left in the storage at the end. A write that is
never seen may lose the race: it makes no difference. But it must follow the work that allocated the storage: the
block was another value's before, and work of the allocating stream may still read that one.

Each finding is taken as mended for what follows it (its wait is learnt), so one missing wait is one finding
and not one per later use, and no finding's wait is implied by another's. It is enough to look at the latest
conflicting access of each other stream: a stream's earlier work is done before its later work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch.fx import Node

from air_streams._clocks import Clock, Clocks
from air_streams._findings import Race
from air_streams._parts import apart_in_the_program, writes_a_part
from air_streams._program import Program
from air_streams._storages import WHOLE, Access, Memory, Region, Storage, common, without


@dataclass(slots=True)
class _Touches:
    """The latest reader and writer of each region, per stream."""

    reads: dict[int, dict[Region, Node]] = field(default_factory=dict)
    writes: dict[int, dict[Region, Node]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Conflict:
    node: Node
    storage: Storage
    first_writes: bool
    second_writes: bool


def observed_writes(program: Program) -> dict[tuple[Node, int], tuple[Region, ...]]:
    """For each write (node, number of the access): which of its bytes are read later or left at the end."""
    needed: dict[Storage, list[Region]] = {}
    seen: dict[tuple[Node, int], tuple[Region, ...]] = {}
    for node in reversed(program.order):
        accesses = program.memory.accesses.get(node, ())
        for number, access in enumerate(accesses):
            if access.writes:
                seen[node, number] = common(needed.setdefault(access.storage, [WHOLE]), access.region)
        for access in accesses:
            if access.covers:
                needed[access.storage] = without(needed[access.storage], access.region)
        for access in accesses:
            if access.reads:
                wanted = without(needed.setdefault(access.storage, [WHOLE]), access.region)
                needed[access.storage] = [*wanted, access.region]
    return seen


class _Detector:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.observed = observed_writes(program)
        self.touches: dict[Storage, _Touches] = {}
        self.races: list[Race] = []
        self.real: set[int] = set()  # with which streams the node has a conflict in the program as well

    def before_work(self, clock: Clock, node: Node) -> None:
        stream = clock.streams[self.program.stream[node]]
        worst: dict[int, _Conflict] = {}
        self.real = set()
        accesses = self.program.memory.accesses[node]
        for number, access in enumerate(accesses):
            self._compare(clock, node, number, access, stream, worst)
        latest = sorted(worst.items(), key=lambda item: -self.program.index[item[1].node])
        for _, conflict in latest:
            stamp = clock.stamps[conflict.node]
            if not clock.knows(stream, stamp):
                clock.learn(stream, stamp)
                is_apart = stamp.stream not in self.real
                self.races.append(self._race(conflict, node, is_apart))
        for access in accesses:
            touches = self.touches.setdefault(access.storage, _Touches())
            for happens, table in ((access.reads, touches.reads), (access.writes, touches.writes)):
                if happens:
                    table.setdefault(stream, {})[access.region] = node

    def _compare(
        self, clock: Clock, node: Node, number: int, access: Access, stream: int, worst: dict[int, _Conflict]
    ) -> None:
        if access.writes:
            self._compare_allocation(clock, node, access.storage, stream, worst)
        touches = self.touches.get(access.storage)
        if touches is None:
            return
        visible = (access.region,) if access.reads else self.observed[node, number]
        tables = [(touches.writes, True, visible)]
        if access.writes:
            tables.append((touches.reads, False, (access.region,)))
        for table, first_writes, bytes_ in tables:
            for other, regions in table.items():
                if other == stream:
                    continue
                for region, first in regions.items():
                    if clock.knows(stream, clock.stamps[first]) or not common(bytes_, region):
                        continue
                    found = _Conflict(first, access.storage, first_writes, access.writes)
                    self._keep_latest(worst, other, found, node)

    def _compare_allocation(
        self, clock: Clock, node: Node, storage: Storage, stream: int, worst: dict[int, _Conflict]
    ) -> None:
        made = None if storage.allocator is None else clock.stamps.get(storage.allocator)
        if storage.allocator is not None and made is not None and not clock.knows(stream, made):
            self._keep_latest(worst, made.stream, _Conflict(storage.allocator, storage, True, True), node)

    def _keep_latest(self, worst: dict[int, _Conflict], stream: int, found: _Conflict, node: Node) -> None:
        if stream not in self.real and not apart_in_the_program(
            self.program, found.node, node, found.storage
        ):
            self.real.add(stream)
        known = worst.get(stream)
        if known is None or self.program.index[known.node] < self.program.index[found.node]:
            worst[stream] = found

    def _race(self, conflict: _Conflict, second: Node, is_apart: bool) -> Race:
        first = conflict.node
        return Race(
            first,
            second,
            self.program.stream[first],
            self.program.stream[second],
            conflict.storage.name,
            conflict.first_writes,
            conflict.second_writes,
            of_a_copy=writes_a_part(first) or writes_a_part(second),
            is_apart=is_apart,
        )


def find_races(program: Program) -> tuple[tuple[Race, ...], Clocks]:
    """The races, and the clocks as they are once the waits that mend them are there."""
    detector = _Detector(program)
    clocks = Clock(program, detector.before_work).run()
    return tuple(detector.races), clocks


def value_in(memory: Memory, node: Node, storage: Storage) -> Node:
    """An argument of `node` (or itself) whose value lives in the storage."""
    return next((arg for arg in node.all_input_nodes if storage in memory.storages(arg)), node)
