"""The picture of a plan: streams as lanes, work as boxes, events as arrows, findings marked.

Without measured durations every operator takes one tick, recording and waiting a fraction of one; the picture
then shows what may overlap and what waits for what, not how long it takes. It is drawn from the steps an
executor performs, so fork and join are in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torch.fx import Node

from air_graph import place_of
from air_graph.files import write_text
from air_graph.page import Page
from air_streams import _page, _trace
from air_streams._findings import Finding, RedundantWait
from air_streams._picture import Arrow, Box, Kind, Mark, Picture
from air_streams._steps import EventId, Record, RecordStream, Step, StreamId, Wait
from air_streams.errors import InvalidArgument

if TYPE_CHECKING:
    from air_streams._plan import StreamPlan

_STEP_TICKS: Final = 0.25


@dataclass(frozen=True)
class Timeline(Picture):
    """The picture of a plan as data. `to_trace`, `to_html` and `save` write it."""

    def to_trace(self) -> dict[str, Any]:
        """A trace for ui.perfetto.dev or chrome://tracing, as the object to be written as JSON."""
        return _trace.trace_of(self)

    def to_html(self) -> str:
        """One page that needs nothing else: lanes, arrows, and the findings, grouped by their lines."""
        return _page.page_of(self)

    def show_on(self, page: Page, *others: Timeline) -> None:
        """Adds the picture, and others to choose from, as a tab of a page."""
        _page.add_timelines(page, [self, *others])

    def save(self, path: str | Path) -> Path:
        """Writes the page (`.html`) or the trace (`.json`)."""
        target = Path(path)
        if target.suffix == ".html":
            write_text(target, self.to_html(), "the timeline")
        elif target.suffix == ".json":
            write_text(target, json.dumps(self.to_trace()), "the timeline")
        else:
            raise InvalidArgument(
                f"a timeline is saved as .html or .json, got '{target.name}'",
                advice=".html is a page for a browser, .json a trace for ui.perfetto.dev",
            )
        return target


@dataclass
class _Drawing:
    plan: StreamPlan
    durations: Mapping[Node, float] | Callable[[Node], float] | None
    is_work: Callable[[Node], bool]
    now: dict[StreamId, float] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    at: dict[Node, Box] = field(default_factory=dict)
    records: dict[tuple[EventId, int], Box] = field(default_factory=dict)
    said: dict[Node, list[str]] = field(default_factory=dict)
    redundant: set[tuple[Node, EventId]] = field(default_factory=set)

    def duration(self, node: Node) -> float:
        if self.durations is None:
            return 1.0
        given = self.durations(node) if callable(self.durations) else self.durations.get(node, 0.0)
        if isinstance(given, bool) or not 0 <= given < float("inf"):  # NaN is in no range
            raise InvalidArgument(
                f"the duration of {node.name} is {given!r}", advice="give a finite number from 0 up"
            )
        return given

    def is_own(self, node: Node, kind: Kind) -> bool:
        """Whether the box stands for the node itself, not for a fork, a join or a value's record beside it."""
        return kind == "work" or not self.is_work(node)

    def add(self, node: Node, kind: Kind, label: str, stream: StreamId, length: float) -> Box:
        start = self.now.get(stream, 0.0)
        box = Box(
            label,
            kind,
            stream,
            start,
            start + length,
            str(node.target),
            place_of(node),
            tuple(self.said.get(node, ())) if self.is_own(node, kind) else (),
        )
        self.now[stream] = box.end
        self.boxes.append(box)
        return box

    def step(self, node: Node, step: Step) -> None:
        if isinstance(step, Record):
            box = self.add(node, "record", f"record {step.event.name}", step.stream, _STEP_TICKS)
            self.records[step.event, step.version] = box
        elif isinstance(step, Wait):
            source = self.records[step.event, step.version]
            self.now[step.stream] = max(self.now.get(step.stream, 0.0), source.end)
            box = self.add(node, "wait", f"wait {step.event.name}", step.stream, _STEP_TICKS)
            self.arrows.append(Arrow(step.event, source, box, (node, step.event) in self.redundant))
        elif isinstance(step, RecordStream):
            stream = self.plan.stream_of(node)
            box = self.add(node, "keep", f"{step.tensor.name} kept for {step.stream}", stream, _STEP_TICKS)
        else:
            return
        self.at.setdefault(node, box)


def draw(
    plan: StreamPlan,
    findings: Sequence[Finding],
    redundant: Sequence[RedundantWait],
    is_work: Callable[[Node], bool],
    durations: Mapping[Node, float] | Callable[[Node], float] | None,
    title: str,
) -> Timeline:
    """Lays out a plan."""
    drawing = _Drawing(plan, durations, is_work)
    for finding in (*findings, *redundant):
        for node in {finding.first, finding.second}:
            drawing.said.setdefault(node, []).append(f"{finding.kind}: {finding.what}")
    drawing.redundant = {(wait.second, wait.event) for wait in redundant}
    for node in plan.nodes:
        actions = plan.actions(node)
        for step in actions.before:
            drawing.step(node, step)
        if actions.runs and is_work(node):
            drawing.at[node] = drawing.add(node, "work", node.name, actions.stream, drawing.duration(node))
        for step in actions.after:
            drawing.step(node, step)
    marks = [
        Mark(finding, drawing.at[finding.first], drawing.at[finding.second])
        for finding in findings
        if finding.first in drawing.at and finding.second in drawing.at
    ]
    streams = tuple(use.stream for use in plan.resources.streams)
    return Timeline(
        title, streams, tuple(drawing.boxes), tuple(drawing.arrows), tuple(marks), durations is not None
    )
