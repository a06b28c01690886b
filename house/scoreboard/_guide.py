"""docs/performance.md and its Chinese twin, made of the records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from house.scoreboard._boards import BOARDS, Board, Line, lines, sum_of
from house.scoreboard._records import GROUNDS, Ground, Record
from house.scoreboard._texts import AT_MOST, COUNTED, PAGE
from house.scoreboard._texts import GROUNDS as TITLES
from house.translations import Page, accepted

Language = Literal["en", "zh"]
NAME: Final = "performance.md"
COMMAND: Final = "```bash\nnox -s scoreboard\n```"
OTHER: Final = {"en": "[中文](performance.zh.md)", "zh": "[English](performance.md)"}


def pages(records: Mapping[Ground, Record]) -> dict[str, str]:
    """The text of each page, by its place in the repository."""
    english, chinese = (_page(records, language) for language in ("en", "zh"))
    return {
        f"docs/{NAME}": english,
        "docs/performance.zh.md": accepted(Page(english, chinese), NAME),
    }


def _page(records: Mapping[Ground, Record], language: Language) -> str:
    total = sum_of(records)
    summary = _said("sum", language).format(**total._asdict(), all=len(BOARDS))
    parts = [
        f"# {_said('title', language)}",
        OTHER[language],
        _said("intro", language),
        summary,
        f"## {_said('how', language)}",
        COMMAND,
        _said("run", language),
    ]
    for ground in GROUNDS:
        parts += _ground(ground, records.get(ground), language)
    return "\n\n".join(parts) + "\n"


def _said(key: str, language: Language) -> str:
    return filled(str(getattr(PAGE[key], language)))


def filled(text: str) -> str:
    """English prose in lines of the guide's length; Chinese has no spaces to break at."""
    return (
        textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) if text.isascii() else text
    )


def _ground(ground: Ground, record: Record | None, language: Language) -> Iterator[str]:
    yield f"## {getattr(TITLES[ground], language)}"
    yield _facts(record, language)
    if ground == "cuda":
        yield _said("of the gpu", language)
    for board in BOARDS:
        if board.ground == ground:
            yield f"### {getattr(board.title, language)}"
            yield filled(str(getattr(board.about, language)))
            yield _table(board, lines(board, record), language)


def _facts(record: Record | None, language: Language) -> str:
    if record is None:
        return _said("unmeasured", language)
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    form = _said("reduced", language) if record.quick else ""
    return _said("facts", language).format(
        device=record.device, date=record.date, form=form, versions=versions
    )


def _table(board: Board, rows: list[Line], language: Language) -> str:
    if not rows:
        return _said("open", language)
    counted = board.grows_with and getattr(COUNTED[board.grows_with], language)
    head = _said("grows", language).format(counted) if counted else _said("head", language)
    return "\n".join([head, "|---|---|---|", *(_row(board, line, language) for line in rows)])


def _row(board: Board, line: Line, language: Language) -> str:
    name = f"**{line.name}**" if line.ours and not board.grows_with else line.name
    return f"| {name} | {line.shown} | {_loss(board, line, language)} |"


def _loss(board: Board, line: Line, language: Language) -> str:
    if not line.lost_to:
        return ""
    reason = getattr(line.reason, language) if line.reason else _said("unknown", language)
    if board.grows_with:
        return _said("missed", language).format(getattr(AT_MOST, language).format(board.at_most), reason)
    return _said("loss", language).format(line.lost_to, reason)
