"""What an executor does at a node: the vocabulary of a `StreamPlan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from torch.fx import Node

from air_streams._tags import ENTRY_TAG


@dataclass(frozen=True, order=True)
class StreamId:
    """A stream of the plan. The entry stream is the one that was current when the graph was called."""

    tag: str

    @property
    def is_entry(self) -> bool:
        """Whether this is the stream on which the graph is entered and its outputs are ready."""
        return self.tag == ENTRY_TAG

    def __str__(self) -> str:
        return "entry stream" if self.is_entry else f"stream '{self.tag}'"


ENTRY: Final = StreamId(ENTRY_TAG)


@dataclass(frozen=True, order=True)
class EventId:
    """An event of the plan: the user's own (a key or a marker) or one the plan added."""

    name: str
    origin: Literal["user", "fork", "join", "value"] = "user"

    def __str__(self) -> str:
        return f"event '{self.name}'" if self.origin == "user" else f"{self.origin} event '{self.name}'"


@dataclass(frozen=True, slots=True)
class Record:
    """Record `event` on `stream`. `version` counts the records of this event in the graph from 0."""

    event: EventId
    stream: StreamId
    version: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Make `stream` wait for the record number `version` of `event`."""

    event: EventId
    stream: StreamId
    version: int = 0


@dataclass(frozen=True)
class RecordStream:
    """Tell the allocator that the value of `tensor` is in use on `stream`."""

    tensor: Node
    stream: StreamId


@dataclass(frozen=True)
class LimitCores:
    """Save the core limits of `stream`, then set these."""

    stream: StreamId
    aicore: int
    vectorcore: int


@dataclass(frozen=True)
class RestoreCores:
    """Put back the limits which the matching `LimitCores` saved."""

    stream: StreamId


Step = Record | Wait | RecordStream | LimitCores | RestoreCores


@dataclass(frozen=True, slots=True)
class Actions:
    """All an executor does at one node: `before`, then the node itself on `stream` if `runs`, then `after`."""

    stream: StreamId
    runs: bool
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
