"""The order of a replay whose host parameters are patched, and the check that it suffices.

    caller's stream     launch the graph ............................ record(over)
    captured streams      wait(e0) reset(e0) operator 0 ... wait(e1) reset(e1) operator 1
    update stream       wait(over of the last round) patch 0, record(e0), patch 1, record(e1)

Streams run beside each other and a host may be rounds ahead of its device; nothing but events orders them.  What
must hold for every operator is decided on the actions themselves, by happens-before over two rounds:

    its patch is done before it runs                 else it runs with the values of another call
    it is done before its patch of the next round    else a task is patched that still has to run
    its event is reset between its wait and the      else the next round does not wait, or waits for ever
    record of the next round
    no action waits for itself                       else the device hangs

What a capture did is written down while it is made, so an operator that did not land behind its own wait is found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, Literal

Kind = Literal["wait", "reset", "run", "patch", "record", "launch"]

#: The two streams outside the capture; captured ones have any other name.
CALLER: Final = "caller"
UPDATE: Final = "update"

#: The event that says that a round is over.
OVER: Final = "over"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a stream does: `subject` is the event it is about, or the number of the operator."""

    stream: Hashable
    kind: Kind
    subject: Hashable


_Name = tuple[int, Kind, Hashable]


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """An action in one of the rounds."""

    round: int
    action: Action

    @property
    def name(self) -> _Name:
        """What no other action of the two rounds is called."""
        return (self.round, self.action.kind, self.action.subject)


def round_of(events: Sequence[Hashable]) -> tuple[Action, ...]:
    """What a replay does outside the graph, in the order of the host: one event per operator."""
    patches = [
        action
        for number, event in enumerate(events)
        for action in (Action(UPDATE, "patch", number), Action(UPDATE, "record", event))
    ]
    return (
        Action(CALLER, "launch", None),
        Action(UPDATE, "wait", OVER),
        *patches,
        Action(CALLER, "record", OVER),
    )


def violations(captured: Sequence[Action], played: Sequence[Action], events: Sequence[Hashable]) -> list[str]:
    """What is not ordered in a graph that did `captured` while it was made, and whose replay is `played`."""
    actions = [_Scheduled(number, action) for number in (0, 1) for action in _in_host_order(captured, played)]
    place = {at.name: index for index, at in enumerate(actions)}
    if len(place) != len(actions):
        return ["an event or an operator is used twice in one replay"]
    before = _ancestors(_edges(actions, place, frozenset(action.stream for action in captured)))
    if before is None:
        return ["the streams wait for each other: a replay would hang"]

    def ordered(first: _Name, second: _Name) -> bool:
        return first in place and second in place and bool(before[place[second]] >> place[first] & 1)

    found = []
    for number, event in enumerate(events):
        if not all(ordered((turn, "patch", number), (turn, "run", number)) for turn in (0, 1)):
            found.append(f"operator {number} may run before its values are patched")
        if not ordered((0, "run", number), (1, "patch", number)):
            found.append(f"operator {number} may be patched for the next call before it has run")
        if not ordered((0, "wait", event), (0, "reset", event)):
            found.append(f"the event of operator {number} may be reset before it was waited for")
        if not ordered((0, "reset", event), (1, "record", event)):
            found.append(f"the event of operator {number} may be recorded before it is reset")
    return found


def _in_host_order(captured: Sequence[Action], played: Sequence[Action]) -> Iterable[Action]:
    """The captured actions stand where the graph is launched."""
    for action in played:
        yield action
        if action.kind == "launch":
            yield from captured


def _edges(
    actions: Sequence[_Scheduled], place: dict[_Name, int], inside: frozenset[Hashable]
) -> list[set[int]]:
    """For each action those that come directly before it: on its stream, of its graph, or by an event."""
    edges: list[set[int]] = [set() for _ in actions]
    last: dict[Hashable, int] = {}
    launched: int | None = None
    for index, at in enumerate(actions):
        stream, kind = at.action.stream, at.action.kind
        if stream in inside and launched is not None:
            # and nothing of the last round: only events and the caller order rounds
            edges[index].add(launched)
            if (previous := last.get(stream)) is not None and actions[previous].round == at.round:
                edges[index].add(previous)
        elif (previous := last.get(stream)) is not None:
            edges[index].add(previous)
        if stream == CALLER and kind != "launch":
            ends = [i for s, i in last.items() if s in inside and actions[i].round == at.round]
            edges[index].update(ends)  # the caller's stream goes on when the whole graph is done
        if kind == "launch":
            launched = index
        last[stream] = index
        edges[index].update(_signals(at, place))
    return edges


def _signals(at: _Scheduled, place: dict[_Name, int]) -> Iterable[int]:
    """The record that lets a wait go on: of this round inside the graph, of the last one for the end of a round."""
    if at.action.kind == "wait":
        turn = at.round - 1 if at.action.subject == OVER else at.round
        signal = place.get((turn, "record", at.action.subject))
        if signal is not None:
            yield signal


def _ancestors(edges: Sequence[set[int]]) -> list[int] | None:
    """For each action one bit per action that is certainly done when it starts; None where they go in a circle."""
    before = [0] * len(edges)
    try:
        for index in TopologicalSorter(dict(enumerate(edges))).static_order():
            for source in edges[index]:
                before[index] |= before[source] | 1 << source
    except CycleError:
        return None
    return before
