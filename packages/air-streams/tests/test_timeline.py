"""The picture: what is drawn, that it is a valid trace, and that a browser shows it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

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
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\((?!#)", page)


NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)

PROBE = """
<script>
const svg = document.querySelector("svg").getBoundingClientRect();
const boxes = [...document.querySelectorAll("rect.box")];
const report = boxes.map(box => {
  const r = box.getBoundingClientRect();
  window.scrollTo(0, 0);
  const hit = document.elementFromPoint(r.left + 2, r.top + r.height / 2);
  box.dispatchEvent(new MouseEvent("mouseover"));
  return {inside: r.left >= svg.left && r.right <= svg.right && r.top >= svg.top && r.bottom <= svg.bottom,
          width: r.width, left: r.left, right: r.right, top: r.top, color: getComputedStyle(box).fill,
          stroke: getComputedStyle(box).stroke, bad: box.classList.contains("bad"),
          hit: hit === box, panel: document.getElementById("panel").textContent};
});
const marks = [...document.querySelectorAll("path.mark")].map(m => [getComputedStyle(m).stroke, m.getTotalLength()]);
const arrows = [...document.querySelectorAll("path.arrow")].map(a => a.getTotalLength());
const out = document.createElement("pre");
out.id = "probe"; out.textContent = JSON.stringify({report, marks, arrows});
document.body.appendChild(out);
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs a chromium executable on PATH")
def test_N19_a_browser_shows_lanes_boxes_arrows_red_races_and_the_source_line_on_hover(
    tmp_path: Path,
) -> None:
    timeline = plan().timeline()
    page = tmp_path / "plan.html"
    page.write_text(timeline.to_html().replace("</body>", PROBE), encoding="utf-8")
    dom = browser("--window-size=2400,1200", "--dump-dom", page.as_uri(), profile=tmp_path / "profile")
    found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)
    assert found is not None, dom[-2000:]
    probe = json.loads(unescape(found[1]))
    boxes = probe["report"]
    assert len(boxes) == len(timeline.boxes)
    assert all(box["inside"] and box["width"] > 0 for box in boxes)
    for first in boxes:
        same_lane = [other for other in boxes if other is not first and other["top"] == first["top"]]
        assert not [
            other for other in same_lane if first["left"] < other["right"] and other["left"] < first["right"]
        ]
    assert sum("model.py:" in box["panel"] for box in boxes) >= len(PROGRAM)
    assert all("\n" in box["panel"] for box in boxes)
    assert sum(box["bad"] for box in boxes) >= 2
    red = "rgb(210, 47, 61)"
    assert {box["stroke"] for box in boxes if box["bad"]} == {red}
    assert probe["marks"]
    assert all(color == red and length > 0 for color, length in probe["marks"])
    assert len(probe["arrows"]) == len(timeline.arrows)
    assert all(length > 0 for length in probe["arrows"])


@pytest.mark.skipif(CHROMIUM is None, reason="needs a chromium executable on PATH")
def test_N19_a_browser_reports_no_error_on_the_page(tmp_path: Path) -> None:
    page = plan().timeline().save(tmp_path / "plan.html")
    shot = tmp_path / "plan.png"
    browser(f"--screenshot={shot}", "--window-size=1600,700", page.as_uri(), profile=tmp_path / "profile")
    assert shot.stat().st_size > 10_000


def browser(*arguments: str, profile: Path) -> str:
    assert CHROMIUM is not None
    quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ]
    done = subprocess.run(
        [CHROMIUM, *quiet, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    assert "Uncaught" not in done.stderr
    return done.stdout
