"""What a timeline consists of: boxes on lanes, arrows between them, and marks for findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from air_streams._findings import Finding
from air_streams._steps import EventId, StreamId

Kind = Literal["work", "record", "wait", "keep"]


@dataclass(frozen=True)
class Box:
    """Something a stream does, from `start` to `end`."""

    label: str
    kind: Kind
    stream: StreamId
    start: float
    end: float
    operator: str
    source: str
    findings: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether something is found that can make the result wrong; a redundant wait only costs time."""
        return any(not said.startswith("redundant") for said in self.findings)


@dataclass(frozen=True)
class Arrow:
    """A wait: from the box of the record to the box of the wait."""

    event: EventId
    first: Box
    second: Box
    redundant: bool = False


@dataclass(frozen=True)
class Mark:
    """A finding between two places of the picture."""

    finding: Finding
    first: Box
    second: Box


@dataclass(frozen=True)
class Picture:
    """Everything that is drawn."""

    title: str
    streams: tuple[StreamId, ...]
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    marks: tuple[Mark, ...]
    measured: bool

    @property
    def end(self) -> float:
        """When the last box ends."""
        return max((box.end for box in self.boxes), default=0.0)
