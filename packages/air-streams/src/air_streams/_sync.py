"""What to do about findings: warn, raise, repair, or nothing.

`auto` writes the missing waits and record_streams into the graph as the operators a user would have written,
so every later reader of the graph sees the mended program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from air_graph import warn_at
from air_streams import _library
from air_streams._clocks import read_clocks
from air_streams._collectives import find_deadlocks
from air_streams._findings import CollectiveDeadlock, Finding, Lifetime, Race
from air_streams._lifetimes import find_lifetimes
from air_streams._program import Program, read_program
from air_streams._races import find_races
from air_streams.errors import InvalidArgument, StreamCheckError, StreamRaceWarning

log = logging.getLogger(__name__)

Sync = Literal["check", "error", "auto", "off"]
SYNC_MODES: Final[tuple[Sync, ...]] = get_args(Sync)
_WRONG: Final = {
    "program": "the multi-stream program is not correct",
    "passes": "a pass made the multi-stream program incorrect",
}
_MEND: Final = {
    "program": "program",
    "passes": "pass (a custom one, or the one that `explain` shows as modified)",
}


@dataclass(frozen=True)
class SyncReport:
    """What `sync="auto"` put into the graph, and for which finding."""

    mended: tuple[tuple[Finding, tuple[Node, ...]], ...] = ()

    @property
    def inserted(self) -> tuple[Node, ...]:
        """All nodes that were added."""
        return tuple(node for _, nodes in self.mended for node in nodes)

    def explain(self) -> str:
        """One paragraph per insertion."""
        if not self.mended:
            return "no wait and no record_stream was missing"
        return "\n".join(
            f"inserted {', '.join(node.name for node in nodes)} against {finding}"
            for finding, nodes in self.mended
        )


def checked_sync(sync: str) -> Sync:
    """The mode itself, or an error which lists them."""
    for mode in SYNC_MODES:
        if sync == mode:
            return mode
    raise InvalidArgument(
        f"sync must be one of {', '.join(SYNC_MODES)}, got {sync!r}", advice="leave it out for 'check'"
    )


def apply_sync(gm: GraphModule | Graph, sync: str = "auto") -> SyncReport:
    """Inserts what is missing into `gm` if `sync` is "auto"; with any other mode the graph stays as it is."""
    if checked_sync(sync) != "auto":
        return SyncReport()
    graph = gm.graph if isinstance(gm, GraphModule) else gm
    mended: list[tuple[Finding, tuple[Node, ...]]] = []
    program = read_program(graph)
    races, clocks = find_races(program)
    mended.extend(_insert_waits(graph, program, races))
    while deadlocks := find_deadlocks(program, clocks):
        mended.extend(_insert_waits(graph, program, deadlocks[:1]))
        program = read_program(graph)
        clocks = read_clocks(program)
    if mended:
        program = read_program(graph)
        clocks = read_clocks(program)
    mended.extend(_insert_record_streams(graph, find_lifetimes(program, clocks)))
    if mended:
        if isinstance(gm, GraphModule):
            gm.recompile()
        log.info("sync='auto' mended %d findings", len(mended))
    return SyncReport(tuple(mended))


def order_copies(gm: GraphModule | Graph, program: Program, races: Iterable[Race]) -> SyncReport:
    """Inserts the waits that a graph needs because of copies that its program does not make, whatever `sync` is."""
    graph = gm.graph if isinstance(gm, GraphModule) else gm
    mended = _insert_waits(graph, program, [race for race in races if race.of_a_copy])
    if mended and isinstance(gm, GraphModule):
        gm.recompile()
    return SyncReport(tuple(mended))


def _insert_waits(
    graph: Graph, program: Program, findings: Iterable[Race | CollectiveDeadlock]
) -> list[tuple[Finding, tuple[Node, ...]]]:
    taken = {event.name for event, _ in program.records.values()}
    records: dict[Node, str] = {}
    mended: list[tuple[Finding, tuple[Node, ...]]] = []
    for finding in findings:
        first, second = finding.first, finding.second
        added: list[Node] = []
        if first not in records:
            key = _free_name(f"auto:{first.name}", taken)
            records[first] = key
            added.append(_inserted(graph.inserting_after, first, _library.EVENT_RECORD, key))
        added.append(_inserted(graph.inserting_before, second, _library.EVENT_WAIT, records[first]))
        mended.append((finding, tuple(added)))
    return mended


def _inserted(beside: Callable[[Node], Any], node: Node, op: OpOverload, *args: Any) -> Node:
    """A call of a stream operator before or after a node, of the same line of the program."""
    with beside(node):
        call = node.graph.call_function(op, args)
    call.meta["stack_trace"] = node.meta.get("stack_trace")
    return call


def _free_name(name: str, taken: set[str]) -> str:
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}#{count}"
    taken.add(free)
    return free


def _insert_record_streams(
    graph: Graph, findings: Iterable[Lifetime]
) -> list[tuple[Finding, tuple[Node, ...]]]:
    mended: list[tuple[Finding, tuple[Node, ...]]] = []
    for finding in findings:
        given = finding.value, finding.first_stream.tag
        keep = _inserted(graph.inserting_after, finding.first, _library.RECORD_STREAM, *given)
        mended.append((finding, (keep,)))
    return mended


def announce(
    findings: Iterable[Finding], sync: Sync, *, by: Literal["program", "passes"] = "program"
) -> None:
    """Warns of each finding, or raises all of them in one error; `by` says whose work made them.

    Lifetimes are none of them: an executor keeps those blocks. In the program they may be right as well, since its
    variables live until the function returns, where a graph drops a value after its last use. Neither are races
    that only the graph has.
    """
    found = tuple(finding for finding in findings if not _is_no_fault(finding))
    if not found or sync == "off":
        return
    if sync == "error":
        raise StreamCheckError(
            f"{_WRONG[by]}: {len(found)} finding(s)",
            where="\n  at      ".join(str(finding) for finding in found),
            advice=f"mend the {_MEND[by]} as proposed, or compile with sync='auto' to insert the missing waits",
        )
    for finding in found:
        text = str(finding) if by == "program" else f"{_WRONG[by]}: {finding}"
        warn_at(finding.second_line, StreamRaceWarning(text), "air_streams")


def _is_no_fault(finding: Finding) -> bool:
    return isinstance(finding, Lifetime) or (isinstance(finding, Race) and finding.is_apart)
