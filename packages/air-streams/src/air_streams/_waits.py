"""Checks the waits themselves: redundant ones, those without a record, and those in a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from torch.fx import Node

from air_streams._clocks import Clocks
from air_streams._events import is_recorded
from air_streams._findings import RedundantWait, UnmetWait, WaitCycle
from air_streams._program import Dependency, Program


def find_redundant(program: Program, clocks: Clocks) -> tuple[RedundantWait, ...]:
    """The waits without which exactly the same work is ordered.

    Waits which follow each other on a stream with nothing between them count as one group: one of them is
    redundant if the stream's knowledge before the group and the rest of the group imply it.
    """
    groups: dict[int, list[tuple[Node, Dependency]]] = {}
    before: dict[int, tuple[int, ...]] = {}
    nothing = tuple(-1 for _ in clocks.streams)
    known: dict[int, tuple[int, ...]] = {clocks.streams[stream]: nothing for stream in program.streams}
    found: list[RedundantWait] = []

    def close(stream: int) -> None:
        found.extend(_of_group(program, clocks, before[stream], groups.pop(stream, [])))

    for node in program.order:
        if not program.is_point(node):
            continue
        stream = clocks.stamps[node].stream
        if node in program.waits:
            if stream not in groups:
                before[stream] = known[stream]
                groups[stream] = []
            groups[stream].extend((node, dependency) for dependency in program.waits[node])
        elif stream in groups:
            close(stream)
        known[stream] = clocks.stamps[node].known
    for stream in list(groups):
        close(stream)
    return tuple(sorted(found, key=lambda finding: program.index[finding.second]))


def _of_group(
    program: Program, clocks: Clocks, before: tuple[int, ...], group: list[tuple[Node, Dependency]]
) -> Iterator[RedundantWait]:
    kept = list(group)
    for item in group:
        node, dependency = item
        stamp, own = clocks.stamps[dependency.source], clocks.stamps[node].stream
        others = [clocks.stamps[other.source] for entry, other in kept if (entry, other) != item]
        reached = [
            other.place if other.stream == stamp.stream else other.known[stamp.stream] for other in others
        ]
        if stamp.stream == own or stamp.place <= max(before[stamp.stream], *reached, -1):
            kept.remove(item)
            streams = program.stream[dependency.source], program.stream[node]
            yield RedundantWait(dependency.source, node, *streams, dependency.event)


def find_unmet(program: Program) -> tuple[UnmetWait, ...]:
    """The waits for events which are not recorded before them, in the graph or in what ran before it."""
    found = []
    for wait, event in program.unmet.items():
        records = (node for node, (recorded, _) in program.records.items() if recorded.name == event.name)
        later = next((node for node in records if program.index[node] > program.index[wait]), wait)
        if later is wait and is_recorded(event.name):
            continue
        found.append(UnmetWait(wait, later, program.stream[wait], program.stream[later], event))
    return tuple(found)


def find_cycles(program: Program) -> tuple[WaitCycle, ...]:
    """Circles that close when every wait waits for the record it means, be it issued later."""
    meant = {found.first: found.second for found in find_unmet(program) if found.recorded_later}
    cycles: list[WaitCycle] = []
    while meant:
        cycle = _cycle(program, meant)
        if cycle is None:
            break
        wait = next(node for node in cycle if node in meant)
        record = meant.pop(wait)
        streams = program.stream[wait], program.stream[record]
        cycles.append(WaitCycle(wait, record, *streams, cycle))
    return tuple(cycles)


def _cycle(program: Program, meant: dict[Node, Node]) -> tuple[Node, ...] | None:
    sorter: TopologicalSorter[Node] = TopologicalSorter()
    last: dict[str, Node] = {}
    for node in program.order:
        if not program.is_point(node):
            continue
        sources = [dependency.source for dependency in program.waits.get(node, ())]
        if node in meant:
            sources.append(meant[node])
        stream = program.stream[node].tag
        if stream in last:
            sources.append(last[stream])
        sorter.add(node, *sources)
        last[stream] = node
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[Node] = error.args[1]
        return tuple(cycle)
    return None
