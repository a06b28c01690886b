"""The page with plots: a bar for each row, in light and dark, for a desk and a phone; nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from house.scoreboard.board import GROUNDS, Board, Row, Section
from house.scoreboard.document import OPEN

STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #59636e; --page: #fff; --line: #d5dae0;
  --air: #0a6d4e; --peer: #5b6ee1; --floor: #9aa4ae; --other: #c9d1d9; --loss: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ec; --soft: #a3adb8; --page: #15181c; --line: #363c44;
  --air: #3ec793; --peer: #8b9bff; --floor: #6c7681; --other: #454c55; --loss: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 0 auto;
  max-width: 60rem; padding: 1rem; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); padding-bottom: .25rem; margin-top: 2.5rem; }
h3 { margin-bottom: .25rem; } p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); }
.row { display: grid; grid-template-columns: minmax(8rem, 20rem) 1fr minmax(8.5rem, max-content);
  gap: .25rem .75rem; align-items: center; margin: .2rem 0; }
.bar { height: .9rem; border-radius: .2rem; min-width: 2px; }
.air { background: var(--air); } .peer { background: var(--peer); } .floor { background: var(--floor); }
.other { background: var(--other); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.mine { font-weight: 600; } .loss { color: var(--loss); }
@media (max-width: 40rem) {
  .row { grid-template-columns: 1fr auto; } .row .track { grid-column: 1 / -1; grid-row: 2; } }
"""
LEGEND: Final = {
    "air": "AIR",
    "peer": "others",
    "floor": "what nothing can undercut",
    "other": "for comparison",
}


def page(boards: Mapping[str, Board | None]) -> str:
    """The whole page as one file."""
    body = "\n".join(line for ground in GROUNDS for line in _ground(ground, boards[ground]))
    legend = " ".join(
        f'<span><span class="bar {who}" style="display:inline-block;width:.9rem"></span> {name}</span>'
        for who, name in LEGEND.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>AIR: scoreboard</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>Scoreboard</h1>"
        '<p class="soft">Each ratio is of one process, whose rounds were interleaved, and of the least time of the '
        f"calling thread. Shorter is better.</p><p>{legend}</p>\n{body}\n</body></html>\n"
    )


def _ground(ground: str, board: Board | None) -> Iterator[str]:
    yield f"<h2>{escape(GROUNDS[ground].partition(':')[0])}</h2>"
    if board is None:
        yield f'<p class="soft">{OPEN}</p>'
        return
    _, _, note = GROUNDS[ground].partition(": ")
    if note:
        yield f"<p><strong>{escape(note)}</strong></p>"
    machine = ", ".join(f"{name} {value}" for name, value in board.machine.items())
    yield f'<p class="soft">{escape(f"{board.date}, commit {board.commit}, {machine}")}</p>'
    for section in board.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{escape(section.id)}"><h3>{escape(section.title)}</h3>'
    if section.best_peer is not None:
        mark = ' class="loss"' if section.is_loss else ""
        because = f": {escape(section.because)}" if section.is_loss else ""
        yield f"<p{mark}>{escape(section.verdict)} of the best of the others{because}</p>"
    longest = max(row.value for row in section.rows)
    yield from (_row(row, longest, section.unit) for row in section.rows)
    yield f'<p class="soft">ratios to {escape(section.base)}</p></section>'


def _row(row: Row, longest: float, unit: str) -> str:
    mine = " mine" if row.who == "air" else ""
    return (
        f'<div class="row"><span class="name{mine}">{escape(row.name)}</span>'
        f'<span class="track"><span class="bar {row.who}" style="display:block;width:{100 * row.value / longest:.1f}%">'
        f'</span></span><span class="number{mine}">{row.shown(unit)}, {row.ratio:.2f}</span></div>'
    )
