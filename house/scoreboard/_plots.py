"""The plots of the page, as text: bars for rows of one table, a line for what grows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Final

from house.scoreboard._boards import Board, Line

CODE: Final = re.compile(r"`([^`]*)`")
WIDTH: Final = 480
HEIGHT: Final = 190
LEFT, RIGHT, TOP, BOTTOM = 44, 20, 14, 34


def prose(text: str) -> str:
    """A sentence as HTML; what stands between backquotes is code."""
    return CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def bars(lines: Sequence[Line]) -> str:
    """A bar for each ratio; a dashed mark at 1.00."""
    widest = max(1.0, *(line.ratio for line in lines))
    return (
        f'<ol style="--one: {100 / widest:.2f}%">\n'
        + "\n".join(_bar(each, widest) for each in lines)
        + "\n</ol>"
    )


def _bar(line: Line, widest: float) -> str:
    kind = "row" + (" ours" if line.ours else "") + (" lost" if line.lost_to else "")
    return (
        f'<li class="{kind}"><span>{escape(line.name)}</span>'
        f'<span class="bar"><i style="width: {100 * line.ratio / widest:.2f}%"></i></span>'
        f"<b>{line.shown}</b>{_loss(line)}</li>"
    )


def missed(line: Line) -> str:
    """What was wanted of something that grows, and why it is not so."""
    reason = line.reason.en if line.reason else "the reason is not known"
    return f"<small>{escape(line.lost_to)} was wanted: {prose(reason)}</small>"


def _loss(line: Line) -> str:
    if not line.lost_to:
        return ""
    reason = line.reason.en if line.reason else "the reason is not known"
    return f"<small>loses to {escape(line.lost_to)}: {prose(reason)}</small>"


def growth(board: Board, lines: Sequence[Line]) -> str:
    """Ratios over what they grow with, its axis logarithmic; a dashed line at what is allowed."""
    numbers = [int(line.name.replace(",", "")) for line in lines]
    highest = 1.1 * max(board.at_most, *(line.ratio for line in lines))
    low, high = math.log(min(numbers)), math.log(max(numbers))

    def across(number: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (
            (math.log(number) - low) / (high - low) if high > low else 0.5
        )

    def down(ratio: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - ratio / highest)

    points = [(across(number), down(line.ratio), line) for number, line in zip(numbers, lines, strict=True)]
    drawn = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(0):.1f}" y2="{down(0):.1f}"/>',
        f'<line class="bound" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(board.at_most):.1f}" '
        f'y2="{down(board.at_most):.1f}"/>',
        f'<text x="{LEFT - 6}" y="{down(board.at_most) + 4:.1f}" text-anchor="end">{board.at_most:.2f}</text>',
        '<path d="M' + " L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points) + '"/>',
        *(_point(x, y, line) for x, y, line in points),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 2}" text-anchor="middle">{escape(board.grows_with)}</text>',
    ]
    told = ", ".join(f"{line.name}: {line.shown}" for line in lines)
    losses = "".join(
        f'<p class="bad">{escape(line.name)}: {missed(line)}</p>' for line in lines if line.lost_to
    )
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(told)}">'
    return picture + "".join(drawn) + "</svg>" + losses


def _point(x: float, y: float, line: Line) -> str:
    kind = ' class="lost"' if line.lost_to else ""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"{kind}/>'
        f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{line.shown}</text>'
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15:.1f}" text-anchor="middle">{escape(line.name)}</text>'
    )
