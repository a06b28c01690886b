"""The picture: what is drawn, that it is a valid trace, and that a browser shows it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from air_graph.testing import browser
from air_streams import StreamPlan, errors
from streams_programs import Op, graph_of

PROGRAM = (
    Op(0, "write", 0),
    Op(0, "record", 1),
    Op(1, "wait", 1),
    Op(1, "read", 0),
    Op(2, "update", 0),
    Op(1, "write", 1),
    Op(1, "record", 2),
    Op(0, "wait", 2),
    Op(0, "wait", 1),
    Op(0, "move", 1, 0),
)


def plan() -> StreamPlan:
    graph, nodes = graph_of(PROGRAM, 2)
    for number, node in enumerate(nodes):
        node.meta["stack_trace"] = f'  File "model.py", line {number + 1}, in forward\n    x = a < b & "c"'
    return StreamPlan.of(graph, sync="off")


def test_N19_boxes_of_a_stream_follow_each_other_and_waits_start_after_their_records() -> None:
    timeline = plan().timeline()
    for stream in timeline.streams:
        boxes = [box for box in timeline.boxes if box.stream == stream]
        assert all(first.end <= second.start for first, second in itertools.pairwise(boxes))
    assert timeline.arrows
    assert all(arrow.first.end <= arrow.second.start for arrow in timeline.arrows)
    assert [str(stream) for stream in timeline.streams] == ["entry stream", "stream '1'", "stream '2'"]


def test_N19_findings_are_marked_and_redundant_waits_are_drawn_apart() -> None:
    timeline = plan().timeline()
    assert {mark.finding.kind for mark in timeline.marks} == {"race"}
    assert [arrow.event.name for arrow in timeline.arrows if arrow.redundant] == ["1"]


def test_N19_measured_durations_give_the_widths() -> None:
    timed = plan()
    works = [node for node in timed.nodes if node.name in ("fill__scalar", "sum_default", "fill_", "sum_1")]
    timeline = timed.timeline(durations={node: 7.0 for node in works})
    assert sum(box.end - box.start == 7.0 for box in timeline.boxes) == len(works) > 0
    with pytest.raises(errors.InvalidArgument, match=r"is -1\.0"):
        timed.timeline(durations=lambda _: -1.0)


def test_N19_the_trace_keeps_the_rules_of_the_chrome_format() -> None:
    trace = json.loads(json.dumps(plan().timeline().to_trace()))
    events = trace["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    flows = [event for event in events if event["ph"] in "sf"]
    starts = {event["id"]: event for event in flows if event["ph"] == "s"}
    ends = {event["id"]: event for event in flows if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    for event in flows:
        inside = [
            s for s in slices if s["tid"] == event["tid"] and s["ts"] <= event["ts"] <= s["ts"] + s["dur"]
        ]
        assert inside, "a flow binds to the slice it lies in"
    assert all(starts[number]["ts"] <= ends[number]["ts"] for number in starts)
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {
        "entry stream",
        "stream '1'",
        "stream '2'",
    }
    assert any(event["ph"] == "i" and event["name"].startswith("race") for event in events)
    assert all(event["dur"] > 0 for event in slices)


def test_a_timeline_is_saved_by_the_ending_of_the_name(tmp_path: Path) -> None:
    timeline = plan().timeline(title="mine & yours")
    assert "traceEvents" in json.loads(timeline.save(tmp_path / "plan.json").read_text())
    assert "mine &amp; yours" in timeline.save(tmp_path / "plan.html").read_text()
    with pytest.raises(errors.InvalidArgument, match=r"\.html or \.json"):
        timeline.save(tmp_path / "plan.txt")


def test_the_page_refers_to_nothing_outside_itself() -> None:
    page = plan().timeline().to_html()
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\(", page)


needs_browser = pytest.mark.skipif(browser.find() is None, reason="needs a chromium executable on PATH")


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_N19_a_browser_shows_lanes_boxes_arrows_red_races_and_the_source_line(
    tmp_path: Path, width: int, dark: bool
) -> None:
    timeline = plan().timeline()
    path = timeline.save(tmp_path / "plan.html")
    with browser.Browser() as opened:
        tab = opened.open(path, width=width, dark=dark)
        tab.settle()
        assert tab.overflows == 0
        assert tab.complaints == []
        lanes = tab.ask("airPage.made.lanes.picture.lanes")
        assert [lane["name"] for lane in lanes] == ["entry stream", "stream '1'", "stream '2'"]
        assert sum(len(lane["start"]) for lane in lanes) == len(timeline.boxes)
        assert sum(map(sum, (lane["bad"] for lane in lanes))) >= 2
        pixels = (
            "new Set(Array.from(new Uint32Array(document.querySelector('canvas').getContext('2d').getImageData(0, 0, \
            document.querySelector('canvas').width, document.querySelector('canvas').height).data.buffer)))"
        )
        red = 0xFF877BFF if dark else 0xFF3423C6
        assert tab.ask(f"{pixels}.has({red})"), "a finding is red"
        tab.ask("void document.querySelector('canvas').focus()")
        told = []
        for number, lane in enumerate(lanes):
            tab.ask(f"void airPage.made.lanes.tell([{number}, 0])")
            for _ in lane["start"]:
                told.append(tab.ask("airPage.made.lanes.panel.innerText"))
                tab.press("ArrowRight")
        assert sum("model.py:" in text for text in told) >= len(PROGRAM)
        assert sum("race: " in text for text in told) >= 2
        assert "model.py:5" in tab.ask("document.querySelector('#view-lanes table').innerText")


def test_N19_the_page_of_2000_operators_with_hundreds_of_findings_stays_small() -> None:
    program = tuple(Op(at % 4, ("write", "read", "update")[at % 3], at % 5) for at in range(2_000))
    graph, nodes = graph_of(program, 5)
    for number, node in enumerate(nodes):
        node.meta["stack_trace"] = f'  File "model.py", line {number % 40}, in forward\n    x = f(x)'
    timeline = StreamPlan.of(graph, sync="off").timeline()
    assert len(timeline.boxes) > 2_000
    assert len(timeline.marks) > 300
    assert len(timeline.to_html()) < 2_000_000
