"""The stream plan of a graph: which stream, in which order, how long alive, and what an executor does where."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from torch.fx import Graph, GraphModule, Node

from air_graph import place_of, source_of, warn_at
from air_streams import _library
from air_streams._clocks import Clocks, read_clocks
from air_streams._collectives import find_deadlocks
from air_streams._describe import describe
from air_streams._events import is_outside
from air_streams._findings import (
    CollectiveDeadlock,
    Finding,
    Lifetime,
    Race,
    RedundantWait,
    UnmetWait,
    WaitCycle,
)
from air_streams._lifetimes import blocks_to_keep, find_lifetimes, find_unknown_streams
from air_streams._outside import Awaited
from air_streams._parts import writes_a_part
from air_streams._program import Program, read_program
from air_streams._races import find_races
from air_streams._steps import ENTRY, Actions, EventId, Record, RecordStream, Step, StreamId, Wait
from air_streams._sync import Sync, SyncReport, announce, apply_sync, checked_sync, order_copies
from air_streams._timeline import Timeline, draw
from air_streams._waits import find_cycles, find_redundant, find_unmet
from air_streams.errors import ScopeIgnored


@dataclass(frozen=True)
class StreamUse:
    """A stream of the plan, the priority it must have, and the scope that asks for that."""

    stream: StreamId
    priority: int
    asked_by: Node | None = None


@dataclass(frozen=True)
class Resources:
    """What the device must provide: streams (the entry stream included) and events."""

    streams: tuple[StreamUse, ...]
    events: tuple[EventId, ...]


@dataclass(frozen=True)
class PlanOrdering:
    """The order of a plan, as the passes of air-fxpasses ask for it.

    Of a node that was added after the plan was made nothing is known: it may run at any time.
    """

    clocks: Clocks

    def _knows(self, a: Node, b: Node) -> bool:
        return a in self.clocks.stamps and b in self.clocks.stamps

    def concurrent(self, a: Node, b: Node) -> bool:
        """Whether the two nodes may run at the same time or in either order."""
        return a is not b and (not self._knows(a, b) or self.clocks.concurrent(a, b))

    def happens_before(self, a: Node, b: Node) -> bool:
        """Whether `a` is certainly done when `b` starts."""
        return self._knows(a, b) and self.clocks.happens_before(a, b)

    def same_stream(self, a: Node, b: Node) -> bool:
        """Whether both nodes are issued on one stream."""
        return self._knows(a, b) and self.clocks.stamps[a].stream == self.clocks.stamps[b].stream


_FORK: Final = EventId("fork", "fork")


class StreamPlan:
    """The multi-stream reading of an AOT graph. Make it with `StreamPlan.of`; it describes the graph as it was."""

    def __init__(self, program: Program, clocks: Clocks, sync_report: SyncReport | None = None) -> None:
        self._program = program
        self._clocks = clocks
        self.sync_report = SyncReport() if sync_report is None else sync_report

    @functools.cached_property
    def _races_and_clocks(self) -> tuple[tuple[Race, ...], Clocks]:
        return find_races(self._program)

    @functools.cached_property
    def _actions(self) -> dict[Node, Actions]:
        return dict(_lower(self._program, self._clocks))

    @classmethod
    def of(cls, gm: GraphModule | Graph, *, sync: str = "check") -> StreamPlan:
        """Reads the plan of a graph, and looks whether it is correct.

        `sync` says what happens then: "check" warns with `StreamRaceWarning`, "error" raises
        `StreamCheckError`, "auto" first inserts missing waits and record_streams into `gm` (they are listed in
        `plan.sync_report`), "off" does not look.
        """
        mode = checked_sync(sync)
        report = apply_sync(gm, mode)
        program = read_program(gm.graph if isinstance(gm, GraphModule) else gm)
        plan = cls(program, read_clocks(program), report)
        if mode == "off":
            return plan
        plan._announce(mode)
        return plan._with_copies_ordered(gm)

    def held_to(self, sync: str, gm: GraphModule | Graph) -> StreamPlan:
        """What `StreamPlan.of(gm, sync=sync)` gives, for the graph this plan was read from.

        The graph is only read again where waits were inserted: all that are missing with "auto", and with any mode
        those that the graph needs and the program does not.
        """
        mode = checked_sync(sync)
        if mode == "auto" and self.check():
            return StreamPlan.of(gm, sync="auto")
        self._announce(mode)
        return self._with_copies_ordered(gm)

    def _with_copies_ordered(self, gm: GraphModule | Graph) -> StreamPlan:
        """The plan once parts of a tensor that are written on one stream wait for those written on another."""
        if not self.is_multi_stream or not any(map(writes_a_part, self._program.order)):
            return self
        report = order_copies(gm, self._program, self.races())
        if not report.mended:
            return self
        program = read_program(gm.graph if isinstance(gm, GraphModule) else gm)
        return StreamPlan(program, read_clocks(program), SyncReport(self.sync_report.mended + report.mended))

    def read_again(self, gm: GraphModule | Graph, *, sync: str = "check") -> StreamPlan:
        """The plan of the graph this plan was read from, after passes changed it.

        Only what is wrong since then is a finding to tell: what this plan shows was told when it was read.
        """
        mode = checked_sync(sync)
        plan = StreamPlan.of(gm, sync=mode if mode == "auto" else "off")
        plan.sync_report = SyncReport(self.sync_report.mended + plan.sync_report.mended)
        if mode != "off":
            told = {_seen_as(finding) for finding in self.check()}
            announce((each for each in plan.check() if _seen_as(each) not in told), mode, by="passes")
        return plan

    def _announce(self, mode: Sync) -> None:
        if mode != "off":
            announce(self.check(), mode)

    @property
    def entry(self) -> StreamId:
        """The stream which is current when the graph is called."""
        return ENTRY

    @property
    def is_multi_stream(self) -> bool:
        """Whether anything runs on another stream than the entry stream."""
        return len(self._program.streams) > 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the graph, in the order in which an executor issues them."""
        return tuple(self._program.order)

    @property
    def attribute_scopes(self) -> tuple[Node, ...]:
        """Where scopes that speak to the graph engine begin (`super_kernel` and its like); a capture ignores them."""
        return tuple(n for n in self._program.order if n.target is _library.ATTRIBUTES_ENTER)

    def warn_of_ignored_scopes(self, acting: Container[str] = ()) -> None:
        """Warns of each such scope, at the user's line; for an executor that captures and acts on `acting` itself."""
        for node in self.attribute_scopes:
            names = [str(name) for name in node.args[0]]  # type: ignore[union-attr]  # by the schema
            if any(name in acting for name in names):
                continue
            where = "max-autotune" + (" and on Ascend NPUs" if "_deterministic_level" in names else "")
            text = f"a scope with {', '.join(names)} acts in {where} only, and this graph is captured: it is ignored"
            warn_at(source_of(node), ScopeIgnored(f"{text}\n  at {place_of(node)}"), "air_streams")

    @property
    def awaited(self) -> Awaited:
        """What comes from before the call, and what code after it may wait for, on the stream of the call."""
        events = dict.fromkeys(event.name for event in self._program.unmet.values())
        names = dict.fromkeys(event.name for event, _ in self._program.records.values())
        recorded = tuple(name for name in names if is_outside(name))
        return Awaited(tuple(events), self._program.waits_for_given, recorded)

    @property
    def ordering(self) -> PlanOrdering:
        """Happens-before between nodes."""
        return PlanOrdering(self._clocks)

    @property
    def resources(self) -> Resources:
        """Streams and events the plan needs."""
        asked = self._program.priority
        streams = tuple(StreamUse(s, *asked.get(s, (0, None))) for s in self._program.streams)
        events: dict[EventId, None] = {}
        for node in self._program.order:
            actions = self._actions[node]
            for step in (*actions.before, *actions.after):
                if isinstance(step, (Record, Wait)):
                    events[step.event] = None
        return Resources(streams, tuple(events))

    def races(self) -> tuple[Race, ...]:
        """Accesses of one storage on two streams which must be ordered and are not: one per missing wait."""
        return self._races_and_clocks[0]

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Blocks freed on their stream while another may still use them, once the races are mended."""
        return find_lifetimes(self._program, self._races_and_clocks[1])

    @property
    def blocks_to_keep(self) -> Mapping[Node, tuple[RecordStream, ...]]:
        """What an executor tells the allocator after which nodes, beside what the program asks for.

        A graph drops a value after its last use, where the variables of a program live on. The stream that still uses
        the block then is told, whatever `sync` is: it costs memory only.
        """
        return blocks_to_keep(self._program, self._clocks)

    def redundant(self) -> tuple[RedundantWait, ...]:
        """Waits without which exactly the same work is ordered."""
        return find_redundant(self._program, self._clocks)

    def unmet(self) -> tuple[UnmetWait, ...]:
        """Waits with no record before them in the graph."""
        return find_unmet(self._program)

    def cycles(self) -> tuple[WaitCycle, ...]:
        """Waits which would wait for each other if each waited for the record it means."""
        return find_cycles(self._program)

    def deadlocks(self) -> tuple[CollectiveDeadlock, ...]:
        """Collectives on two streams which ranks may start in different orders."""
        return find_deadlocks(self._program, self._clocks)

    def check(self) -> tuple[Finding, ...]:
        """Everything that can make the result wrong or hang. Redundant waits cost only time: `redundant()`."""
        waits = *self.unmet(), *self.cycles(), *self.deadlocks()
        return (*self.races(), *self.lifetimes(), *waits, *find_unknown_streams(self._program))

    def timeline(
        self,
        *,
        durations: Mapping[Node, float] | Callable[[Node], float] | None = None,
        title: str = "Stream plan",
    ) -> Timeline:
        """The plan as a picture; `durations` (microseconds) from a profile make the widths real."""
        return draw(self, self.check(), self.redundant(), self._program.is_work, durations, title)

    def describe(self) -> str:
        """The plan as text, free of the names its author chose: equal texts are equal plans."""
        return describe(self, self._program.is_work, self._program.memory.values)

    def stream_of(self, node: Node) -> StreamId:
        """The stream a node is issued on."""
        return self._program.stream[node]

    def actions(self, node: Node) -> Actions:
        """What an executor does at a node; see the README for how to lower a plan."""
        return self._actions[node]


def _seen_as(finding: Finding) -> tuple[object, ...]:
    """What makes two findings the same to a reader: a pass may put other nodes in the place of those on the lines."""
    first, second = finding.first_line or finding.first, finding.second_line or finding.second
    return finding.kind, first, second, finding.first_stream, finding.second_stream


def _lower(program: Program, clocks: Clocks) -> Iterator[tuple[Node, Actions]]:
    after_source = {
        dependency.source: dependency.event
        for dependencies in program.waits.values()
        for dependency in dependencies
        if dependency.event.origin == "value"
    }
    join_at = program.join_node()
    joins = {last: EventId(f"join:{stream.tag}", "join") for stream, last in clocks.joins}
    head = program.fork_node()
    for node in program.order:
        stream = program.stream[node]
        before: list[Step] = []
        after: list[Step] = []
        if node is head and clocks.forks:
            before.append(Record(_FORK, ENTRY))
        if node in clocks.forks:
            before.append(Wait(_FORK, stream))
        if node is join_at:
            before.extend(Wait(joins[last], ENTRY) for _, last in clocks.joins)
        before.extend(_own_steps(program, node, stream))
        if node in after_source:
            after.append(Record(after_source[node], stream))
        if node in joins:
            after.append(Record(joins[node], stream))
        runs = node.op not in ("placeholder", "output") and node.target not in _library.STREAM_OPS
        yield node, Actions(stream, runs, tuple(before), tuple(after))


def _own_steps(program: Program, node: Node, stream: StreamId) -> Iterator[Step]:
    if node in program.records:
        event, version = program.records[node]
        yield Record(event, stream, version)
    for dependency in program.waits.get(node, ()):
        yield Wait(dependency.event, stream, dependency.version)
    if node in program.notes:
        yield program.notes[node]
