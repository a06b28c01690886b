"""docs/performance.md: what was recorded, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from house.scoreboard.board import GROUNDS, Board, Section

HEAD: Final = """\
# Performance

What a call costs with AIR and with others, as it was recorded last; `nox -s scoreboard` measures anew and writes this
page and one with plots. Each ratio is of one process, whose rounds were interleaved, and of the least time of the
calling thread. **bold** is AIR. How to measure your own model: [performance tuning](cases/performance.md).
"""
OPEN: Final = "Nothing is recorded for this ground yet."


def page(boards: Mapping[str, Board | None]) -> str:
    """The whole page."""
    return (
        "\n".join([HEAD, *(line for ground in GROUNDS for line in _ground(ground, boards[ground]))]).rstrip()
        + "\n"
    )


def _ground(ground: str, board: Board | None) -> Iterator[str]:
    yield f"## {GROUNDS[ground].partition(':')[0]}\n"
    if board is None:
        yield f"{OPEN}\n"
        return
    _, _, note = GROUNDS[ground].partition(": ")
    if note:
        yield f"{note[:1].upper()}{note[1:]}.\n"
    machine = ", ".join(f"{name} {value}" for name, value in board.machine.items())
    yield f"Recorded {board.date}, commit {board.commit}: {machine}.\n"
    for section in board.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"### {section.title}\n"
    yield f"| | time | to {section.base} |\n|---|---|---|"
    for row in section.rows:
        name = f"**{row.name}**" if row.who == "air" else row.name
        yield f"| {name} | {row.shown(section.unit)} | {row.ratio:.2f} |"
    yield ""
    if section.best_peer is not None:
        because = f": {section.because}" if section.is_loss else ""
        yield f"Beside the best of the others, AIR is {section.verdict.replace(':', ',')}{because}.\n"
