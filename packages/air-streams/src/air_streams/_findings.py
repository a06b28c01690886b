"""What the checks report: the two places, why they do not fit together, and what to write to make them fit."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from torch.fx import Node

from air_graph import SourceLine, place_of, source_of
from air_streams._steps import EventId, StreamId


@dataclass(frozen=True)
class Finding:
    """Base of all findings. `first` is issued before `second`."""

    kind: ClassVar[str] = "finding"
    _what: ClassVar[str] = ""
    _fix: ClassVar[str] = ""
    """The texts of a class whose findings always say the same, with places for `{self.first.name}` and the like."""

    first: Node
    second: Node
    first_stream: StreamId
    second_stream: StreamId

    @property
    def first_line(self) -> SourceLine | None:
        """The user's line of `first`."""
        return source_of(self.first)

    @property
    def second_line(self) -> SourceLine | None:
        """The user's line of `second`."""
        return source_of(self.second)

    @property
    def what(self) -> str:
        """Why this is wrong."""
        return self._what.format(self=self)

    @property
    def fix(self) -> str:
        """What to write to make it right."""
        return self._fix.format(self=self)

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.what}\n"
            f"  first:  {place_of(self.first)} on the {self.first_stream}\n"
            f"  second: {place_of(self.second)} on the {self.second_stream}\n"
            f"  fix: {self.fix}"
        )


@dataclass(frozen=True)
class Race(Finding):
    """Two streams touch one storage, at least one writes, and nothing orders them."""

    kind: ClassVar[str] = "race"
    _fix: ClassVar[str] = (
        "record an event right after {self.first.name} on the {self.first_stream} (npu_tagged_event_record(event)), "
        "and wait for it on the {self.second_stream} right before {self.second.name} (npu_tagged_event_wait(event)); "
        "make it once outside the compiled function (event = npu_create_tagged_event('a name of yours')); "
        "or compile with sync='auto'"
    )

    storage: str
    first_writes: bool
    second_writes: bool
    of_a_copy: bool = False
    """Whether one of the two makes a whole tensor anew where the program writes a part of it."""
    is_apart: bool = False
    """Whether the two touch no byte in common in the program: then the graph needs a wait, and the program none."""

    @property
    def what(self) -> str:
        """Which storage, and who does what to it."""
        first = "writes" if self.first_writes else "reads"
        second = "writes" if self.second_writes else "reads"
        return (
            f"{self.first.name} {first} and {self.second.name} {second} the memory of {self.storage} "
            "on two streams, and nothing orders them"
        )


@dataclass(frozen=True)
class Lifetime(Finding):
    """A block is freed on its own stream while another stream may still use it.

    A captured graph keeps such a block until its end; eager code needs `record_stream`, or a variable that lives on.
    """

    kind: ClassVar[str] = "lifetime"
    _what: ClassVar[str] = (
        "the memory of {self.storage}, allocated on the {self.owner}, is free after its last use; {self.second.name} "
        "may get it while {self.first.name} still uses it on the {self.first_stream}"
    )
    _fix: ClassVar[str] = (
        "call npu_record_tagged_stream({self.value.name}, {self.first_stream.tag!r}) after {self.first.name}; or "
        "compile with sync='auto'"
    )

    storage: str
    value: Node
    owner: StreamId


@dataclass(frozen=True)
class RedundantWait(Finding):
    """A wait for something that is certainly done already. `first` is the record, `second` the wait."""

    kind: ClassVar[str] = "redundant wait"
    _fix: ClassVar[str] = "remove the wait for {self.event}"

    event: EventId

    @property
    def what(self) -> str:
        """What is waited for without need."""
        if self.first_stream == self.second_stream:
            return f"{self.event} was recorded on the same stream, whose work runs in order anyway"
        return f"other waits already order the {self.second_stream} after this record of {self.event}"


@dataclass(frozen=True)
class UnmetWait(Finding):
    """A wait with no record before it in the graph, nor in eager code or another graph before that.

    `first` is the wait, `second` a later record or itself.
    """

    kind: ClassVar[str] = "unsatisfied wait"

    event: EventId

    @property
    def recorded_later(self) -> bool:
        """Whether the event is recorded after the wait was issued."""
        return self.first is not self.second

    @property
    def what(self) -> str:
        """Why nothing is waited for."""
        if self.recorded_later:
            return f"{self.event} is waited for before it is recorded, so the wait waits for nothing of this graph"
        return f"{self.event} is never recorded in this graph, and was not before it, so the wait waits for nothing"

    @property
    def fix(self) -> str:
        """Where the record belongs."""
        if self.recorded_later:
            return "move the record before the wait in the program"
        return (
            "record the event before the wait, in this function or in code that runs before it; where the wait is for "
            "nothing, remove it"
        )


@dataclass(frozen=True)
class UnknownStream(Finding):
    """Memory is kept for a stream that nothing runs on. `first` and `second` are the `npu_record_tagged_stream`."""

    kind: ClassVar[str] = "unknown stream"
    _what: ClassVar[str] = (
        "memory is kept for the {self.tagged}, on which no operator runs, in this graph or in one before it"
    )

    tagged: StreamId
    used: tuple[str, ...]
    """The tags of the streams that the graph does use."""

    @property
    def fix(self) -> str:
        """The tag that is meant, where one is near."""
        near = get_close_matches(self.tagged.tag, self.used, 1) or self.used
        return "name " + (
            " or ".join(map(repr, near)) or "the tag of the npu_stream_switch that uses the memory"
        )


@dataclass(frozen=True)
class WaitCycle(Finding):
    """Waits that would each wait for the other. `first` is a wait, `second` the record it means."""

    kind: ClassVar[str] = "wait cycle"
    _fix: ClassVar[str] = "remove the wait {self.first.name}, or move the record {self.second.name} before it"

    cycle: tuple[Node, ...]

    @property
    def what(self) -> str:
        """The cycle, node by node."""
        return f"if each wait waited for the record that is meant: {' -> '.join(node.name for node in self.cycle)}"


@dataclass(frozen=True)
class CollectiveDeadlock(Finding):
    """Two collectives on two streams without order: ranks may start them in different orders."""

    kind: ClassVar[str] = "collective deadlock"
    _fix: ClassVar[str] = (
        "record an event after {self.first.name} and wait for it before {self.second.name} "
        "(npu_create_tagged_event makes one, outside the compiled function), or issue both on one stream"
    )

    groups: tuple[str, str]

    @property
    def what(self) -> str:
        """Which collectives, and why they can hang."""
        same = self.groups[0] == self.groups[1]
        where = f"of group {self.groups[0]}" if same else f"of groups {self.groups[0]} and {self.groups[1]}"
        return (
            f"the collectives {self.first.name} and {self.second.name} {where} run on two streams without an "
            "order: two ranks may start them in different orders and wait for each other forever"
        )
