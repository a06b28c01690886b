"""The scoreboard as one HTML page that needs nothing else: no script, no file, no network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

from house.scoreboard._boards import BOARDS, Board, lines, sum_of
from house.scoreboard._plots import bars, growth, prose
from house.scoreboard._records import GROUNDS, Ground, Record
from house.scoreboard._texts import GROUNDS as TITLES

STYLE: Final = Path(__file__).with_name("page.css")
HOW: Final = (
    "Every number is a ratio within one process: less is better, and 1.00 is what the table names. Rows of ours are "
    "blue, and red where another compiler is better."
)


def page(records: Mapping[Ground, Record]) -> str:
    """The text of the page."""
    total = sum_of(records)
    facts = {total.held: "rows of ours hold", total.lost: "rows lose", total.open: "tables are open"}
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>AIR scoreboard</title>\n<style>\n{STYLE.read_text()}</style></head><body>",
            f"<h1>AIR scoreboard</h1>\n<p>{HOW}</p>",
            '<ul class="facts">',
            *(f"<li><b>{count}</b>{what}</li>" for count, what in facts.items()),
            "</ul>",
            *(_ground(ground, records.get(ground)) for ground in GROUNDS),
            "</body></html>\n",
        ]
    )


def _ground(ground: Ground, record: Record | None) -> str:
    boards = "\n".join(_board(board, record) for board in BOARDS if board.ground == ground)
    title = f"<h2>{escape(TITLES[ground].en)}</h2>"
    told = f'<p class="soft">{prose(facts(record))}</p>'
    return f'<section>{title}\n{told}\n<div class="boards">{boards}</div></section>'


def facts(record: Record | None) -> str:
    """Where and when the numbers of a ground were measured."""
    if record is None:
        return "Open: nothing is recorded. `nox -s scoreboard` on a machine with such a device fills these tables."
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    form = "reduced form, " if record.quick else ""
    return f"{record.device}; {form}{record.date}; {versions}"


def _board(board: Board, record: Record | None) -> str:
    rows = lines(board, record)
    head = f'<h3>{escape(board.title.en)}</h3><p class="soft">{prose(board.about.en)}</p>'
    if not rows:
        return f'<article class="open">{head}<p>open</p></article>'
    return f"<article>{head}{growth(board, rows) if board.grows_with else bars(rows)}</article>"
