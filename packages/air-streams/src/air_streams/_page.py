"""A timeline as a view of a page: streams are lanes, what they do boxes, waits arrows, and findings red.

Every text is held once and every box is a row of numbers, so the page of a plan grows with the plan and not with the
product of its operators and findings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from air_graph import SourceLine
from air_graph.page import Page
from air_streams._findings import Finding
from air_streams._picture import Picture

_KINDS: Final = ("work", "record", "wait", "keep")
_NODE: Final = re.compile(r" \(node \w+\)$")


def lanes_of(page: Page, picture: Picture) -> dict[str, Any]:
    """The picture as data of a `lanes` view."""
    labels: dict[str, int] = {}
    findings: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    at: dict[int, tuple[int, int]] = {}
    lanes: dict[Any, dict[str, Any]] = {}
    columns = ("start", "end", "kind", "label", "operator", "source", "bad")
    for stream in picture.streams:
        lanes[stream] = {"name": str(stream), "said": {}, **{column: [] for column in columns}}
    numbers = {stream: number for number, stream in enumerate(picture.streams)}
    for box in picture.boxes:
        lane = lanes[box.stream]
        at[id(box)] = (numbers[box.stream], len(lane["start"]))
        row = (
            round(box.start, 3), round(box.end, 3), _KINDS.index(box.kind), labels.setdefault(box.label, len(labels)),
            labels.setdefault(box.operator, len(labels)), page.source(_NODE.sub("", box.source)), int(box.is_wrong),
        )  # fmt: skip
        for column, value in zip(columns, row, strict=True):
            lane[column].append(value)
    for mark in picture.marks:
        number = findings.setdefault(str(mark.finding), len(findings))
        if number == len(rows):
            rows.append(_row(page, mark.finding))
        for box in (mark.first, mark.second):
            lane_number, place = at[id(box)]
            said = lanes[picture.streams[lane_number]]["said"].setdefault(place, [])
            if number not in said:
                said.append(number)
    return {
        "title": picture.title,
        "text": "Widths are the measured durations."
        if picture.measured
        else "Every operator is drawn one tick wide: the picture shows order, not time.",
        "lanes": list(lanes.values()),
        "labels": list(labels),
        "arrows": [
            (*at[id(arrow.first)], *at[id(arrow.second)], int(arrow.redundant)) for arrow in picture.arrows
        ],
        "marks": [(*at[id(mark.first)], *at[id(mark.second)]) for mark in picture.marks],
        "findings": rows,
    }


def page_of(picture: Picture) -> str:
    """A page with nothing but the timeline and the lines it names."""
    page = Page(picture.title)
    add_timelines(page, [picture])
    page.add("source", "Source")
    return page.html()


def add_timelines(page: Page, pictures: Sequence[Picture]) -> None:
    """A tab with the timelines."""
    page.add("lanes", "Streams", pictures=[lanes_of(page, picture) for picture in pictures])


def _row(page: Page, finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "text": str(finding),
        "first": _line(page, finding.first_line),
        "second": _line(page, finding.second_line),
    }


def _line(page: Page, line: SourceLine | None) -> int:
    return -1 if line is None else page.source(line)
