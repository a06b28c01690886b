"""A timeline as a Chrome trace: one thread per stream, a slice per box, a flow per event."""

from __future__ import annotations

from typing import Any, Final

from air_streams._picture import Box, Picture

_PID: Final = 1
_MICROSECONDS_PER_TICK: Final = 1000.0
_COLORS: Final = {"work": "thread_state_running", "record": "good", "wait": "bad", "keep": "grey"}


def _slice(box: Box, lane: int, scale: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": box.label,
        "cat": box.kind,
        "pid": _PID,
        "tid": lane,
        "ts": box.start * scale,
        "dur": (box.end - box.start) * scale,
        "cname": "terrible" if box.is_wrong else _COLORS[box.kind],
        "args": {"operator": box.operator, "source": box.source, "findings": list(box.findings)},
    }


def trace_of(picture: Picture) -> dict[str, Any]:
    """The trace object. Measured durations are taken as microseconds; otherwise a tick is shown as 1 ms."""
    scale = 1.0 if picture.measured else _MICROSECONDS_PER_TICK
    lanes = {stream: number for number, stream in enumerate(picture.streams)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": _PID, "tid": 0, "args": {"name": picture.title}}
    ]
    for stream, lane in lanes.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": _PID, "tid": lane, "args": {"name": str(stream)}}
        )
        events.append(
            {"ph": "M", "name": "thread_sort_index", "pid": _PID, "tid": lane, "args": {"sort_index": lane}}
        )
    events.extend(_slice(box, lanes[box.stream], scale) for box in picture.boxes)
    for number, arrow in enumerate(picture.arrows):
        middle = [(box.start + box.end) / 2 * scale for box in (arrow.first, arrow.second)]
        flow = {"name": arrow.event.name, "cat": "event", "id": number, "pid": _PID}
        events.append({**flow, "ph": "s", "tid": lanes[arrow.first.stream], "ts": middle[0]})
        events.append({**flow, "ph": "f", "bp": "e", "tid": lanes[arrow.second.stream], "ts": middle[1]})
    for mark in picture.marks:
        events.append(
            {
                "ph": "i",
                "s": "t",
                "name": f"{mark.finding.kind}: {mark.finding.what}",
                "cat": "finding",
                "pid": _PID,
                "tid": lanes[mark.second.stream],
                "ts": mark.second.start * scale,
                "args": {"fix": mark.finding.fix},
            }
        )
    unit = "measured microseconds" if picture.measured else "logical ticks of 1 ms: an operator takes one"
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"unit": unit}}
