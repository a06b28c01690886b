"""The form of a scoreboard: sections of rows, each with its ratio to a base, and what a lost comparison is due to.

    {"ground": "cpu", "date": ..., "commit": ..., "machine": {...},
     "sections": [{"id": ..., "title": ..., "base": ..., "unit": "us", "rows": [{"name", "value", "ratio", "who"}]}]}

A file holds what was measured on one ground. A ratio compares rows of one process, whose rounds were interleaved: the
least time of each, which other work on the machine disturbs least.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

Who = Literal["air", "peer", "floor", "other"]
"""AIR, what it is compared with, what nothing can undercut, or a row that explains."""

GROUNDS: Final = {
    "cpu": "CPU",
    "air-sim": "air-sim: host time above the ACL boundary, kernels do nothing; not the performance of an NPU",
    "cuda": "GPU",
}
SLACK: Final = 1.005  # a ratio that rounds to 1.00 is no loss


@dataclass(frozen=True)
class Row:
    """One thing that was timed."""

    name: str
    value: float
    ratio: float
    who: Who

    def shown(self, unit: str) -> str:
        """The value with its unit, in as many digits as mean something."""
        return f"{self.value:.{1 if self.value >= 10 else 2}f} {unit}"


@dataclass(frozen=True)
class Section:
    """Rows that were timed in one process; `base` is what their ratios are to."""

    id: str
    title: str
    base: str
    unit: str
    rows: tuple[Row, ...]
    because: str = ""
    """Why AIR is behind the best of its peers, where it is."""

    @property
    def best_peer(self) -> Row | None:
        return min((row for row in self.rows if row.who == "peer"), key=lambda row: row.value, default=None)

    @property
    def ours(self) -> Row | None:
        return next((row for row in self.rows if row.who == "air"), None)

    @property
    def verdict(self) -> str:
        """In a word and a ratio, how AIR does beside the best of its peers."""
        if self.ours is None or self.best_peer is None:
            return "no peer"
        ratio = self.ours.value / self.best_peer.value
        return f"{'behind' if ratio > SLACK else 'ahead' if ratio < 1 / SLACK else 'even'}: {ratio:.2f}"

    @property
    def is_loss(self) -> bool:
        return self.verdict.startswith("behind")


@dataclass(frozen=True)
class Board:
    """What was measured on one ground."""

    ground: str
    date: str
    commit: str
    machine: Mapping[str, str]
    sections: tuple[Section, ...] = field(default=())

    def faults(self) -> Iterator[str]:
        """What keeps a board from being shown: a loss that nobody explains."""
        if self.ground not in GROUNDS:
            yield f"unknown ground {self.ground!r}; one of {', '.join(GROUNDS)}"
        for section in self.sections:
            if section.is_loss and not section.because:
                yield f"{section.id}: AIR is {section.verdict} and no reason stands beside its row"


def written(board: Board) -> str:
    return json.dumps(asdict(board), indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> Board:
    raw: dict[str, Any] = json.loads(path.read_text())
    sections = (
        Section(**{**section, "rows": tuple(Row(**row) for row in section["rows"])})
        for section in raw.pop("sections")
    )
    return Board(**raw, sections=tuple(sections))


def boards(folder: Path) -> dict[str, Board | None]:
    """The board of each ground; None where nothing was recorded."""
    files = {ground: folder / f"{ground}.json" for ground in GROUNDS}
    return {ground: read(file) if file.exists() else None for ground, file in files.items()}
