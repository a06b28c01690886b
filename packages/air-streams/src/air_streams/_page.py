"""A timeline as one self-contained page: an SVG, its style, and a few lines of script for the details panel."""

from __future__ import annotations

from html import escape
from typing import Final

from air_streams._picture import Arrow, Box, Mark, Picture

_LANE: Final = 64
_BOX: Final = 34
_TICK: Final = 96
_LEFT: Final = 150
_TOP: Final = 30
_MIN_WIDTH: Final = 4

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #fff; --lane: #eef2f6; --work: #4c7fb8; --record: #3f9a6b;
  --wait: #d29a2f; --keep: #8a94a0; --bad: #d22f3d; --line: #5d6b7a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --paper: #14191f; --lane: #1f2730; --line: #93a1b0; } }
body { font: 14px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 16px; }
h1 { font-size: 18px; } .scroll { overflow-x: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.lane { fill: var(--lane); } .box { rx: 4px; stroke: none; } .box.work { fill: var(--work); }
.box.record { fill: var(--record); } .box.wait { fill: var(--wait); } .box.keep { fill: var(--keep); }
.box.bad { stroke: var(--bad); stroke-width: 3; } .box:hover, .box:focus { outline: 2px solid var(--ink); }
svg text.name { fill: #fff; pointer-events: none; }
.arrow { fill: none; stroke: var(--line); stroke-width: 1.5; } .arrow.redundant { stroke-dasharray: 4 3; opacity: .6; }
.mark { fill: none; stroke: var(--bad); stroke-width: 2.5; stroke-dasharray: 7 4; }
#panel { white-space: pre-wrap; border: 1px solid var(--line); padding: 8px 12px; min-height: 5em; margin: 12px 0; }
li { white-space: pre-wrap; margin-bottom: 8px; } li b { color: var(--bad); }
.key span { display: inline-block; margin-right: 16px; } .key i { display: inline-block; width: 14px; height: 10px;
  margin-right: 5px; }
"""

_SCRIPT: Final = """
const panel = document.getElementById("panel");
for (const item of document.querySelectorAll("[data-tip]"))
  for (const kind of ["mouseover", "focus"])
    item.addEventListener(kind, () => { panel.textContent = item.dataset.tip; });
"""


class _Geometry:
    def __init__(self, picture: Picture) -> None:
        self.lanes = {stream: number for number, stream in enumerate(picture.streams)}
        self.scale = _TICK if not picture.measured else 1200 / max(picture.end, 1e-9)
        self.width = _LEFT + picture.end * self.scale + 40
        self.height = _TOP + len(self.lanes) * _LANE + 10

    def x(self, time: float) -> float:
        return _LEFT + time * self.scale

    def top(self, box: Box) -> float:
        return _TOP + self.lanes[box.stream] * _LANE + (_LANE - _BOX) / 2

    def middle(self, box: Box) -> float:
        return self.top(box) + _BOX / 2

    def box_width(self, box: Box) -> float:
        return max((box.end - box.start) * self.scale - 2, _MIN_WIDTH)


def _tip(box: Box) -> str:
    lines = [f"{box.label} on the {box.stream}", box.operator, box.source, *box.findings]
    return "\n".join(lines)


def _is_bad(box: Box) -> bool:
    return any(not said.startswith("redundant") for said in box.findings)


def _draw_box(box: Box, place: _Geometry) -> str:
    x, y, width = place.x(box.start), place.top(box), place.box_width(box)
    tip = escape(_tip(box), quote=True)
    name = ""
    if box.kind == "work" and width > 24:
        shown = box.label if len(box.label) * 7 < width else box.label[: max(int(width / 7) - 1, 1)] + "…"
        name = f'<text class="name" x="{x + 6:.1f}" y="{y + _BOX / 2 + 4:.1f}">{escape(shown)}</text>'
    kind = f"box {box.kind}{' bad' if _is_bad(box) else ''}"
    return (
        f'<rect class="{kind}" tabindex="0" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BOX}" '
        f'data-tip="{tip}"><title>{tip}</title></rect>{name}'
    )


def _curve(first: Box, second: Box, place: _Geometry) -> str:
    x1, x2 = place.x(first.end) - 2, place.x(second.start)
    y1, y2 = place.middle(first), place.middle(second)
    bend = max(24.0, abs(x2 - x1) / 2)
    return f"M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"


def _draw_arrow(arrow: Arrow, place: _Geometry) -> str:
    kind = "arrow redundant" if arrow.redundant else "arrow"
    tip = escape(f"{arrow.event}: {arrow.second.stream} waits for {arrow.first.stream}", quote=True)
    path = _curve(arrow.first, arrow.second, place)
    return f'<path class="{kind}" marker-end="url(#head)" d="{path}" data-tip="{tip}"><title>{tip}</title></path>'


def _draw_mark(mark: Mark, place: _Geometry) -> str:
    tip = escape(str(mark.finding), quote=True)
    x1, x2 = (place.x((box.start + box.end) / 2) for box in (mark.first, mark.second))
    y1, y2 = place.middle(mark.first), place.middle(mark.second)
    kind = mark.finding.kind.replace(" ", "-")
    line = f"M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}"
    return f'<path class="mark {kind}" d="{line}" data-tip="{tip}"><title>{tip}</title></path>'


def _draw_lanes(picture: Picture, place: _Geometry) -> list[str]:
    drawn = []
    for stream, number in place.lanes.items():
        y = _TOP + number * _LANE
        drawn.append(f'<rect class="lane" x="0" y="{y + 4}" width="{place.width:.0f}" height="{_LANE - 8}"/>')
        drawn.append(f'<text class="stream" x="10" y="{y + _LANE / 2 + 4:.0f}">{escape(str(stream))}</text>')
    return drawn


def _key() -> str:
    kinds = (
        ("work", "operator"),
        ("record", "record"),
        ("wait", "wait"),
        ("keep", "record_stream"),
        ("bad", "finding"),
    )
    return "".join(f'<span><i style="background:var(--{name})"></i>{text}</span>' for name, text in kinds)


def page_of(picture: Picture) -> str:
    """The page as text."""
    place = _Geometry(picture)
    drawn = [
        *_draw_lanes(picture, place),
        *(_draw_box(box, place) for box in picture.boxes),
        *(_draw_arrow(arrow, place) for arrow in picture.arrows),
        *(_draw_mark(mark, place) for mark in picture.marks),
    ]
    findings = "".join(
        f"<li><b>{escape(mark.finding.kind)}</b>{escape(str(mark.finding)[len(mark.finding.kind) :])}</li>"
        for mark in picture.marks
    )
    unit = (
        "Widths are the measured durations."
        if picture.measured
        else "Every operator is drawn one tick wide: the picture shows order, not time."
    )
    title = escape(picture.title)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p>{unit} Hover or focus a box, an arrow or a red line for the source line.</p>
<p class="key">{_key()}</p>
<div class="scroll"><svg width="{place.width:.0f}" height="{place.height:.0f}" role="img" aria-label="{title}">
<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="var(--line)"/></marker></defs>
{chr(10).join(drawn)}
</svg></div>
<div id="panel" aria-live="polite"></div>
<h2>Findings: {len(picture.marks)}</h2><ol>{findings}</ol>
<script>{_SCRIPT}</script>
</body></html>
"""
