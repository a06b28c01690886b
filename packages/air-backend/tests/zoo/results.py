"""What the zoo found, one row for each architecture and ground, kept as JSON: one line for each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

FOLDER: Final = Path("docs/models")
Kind = Literal["same", "differs", "error", "slow", "crash"]
_TOLD: Final = ("made_of", "left_out", "is_random", "version")
"""What a row says of a model where there is something to say."""


class Outcome(NamedTuple):
    """How one way to compile did with a model."""

    kind: Kind
    reason: str = ""
    seconds: float = 0.0
    """Of the first call: tracing, compiling and running."""
    graphs: int = 0
    pieces: int = 0
    captures: int = 0
    eagerly: tuple[str, ...] = ()
    """Operators that run eagerly between pieces."""


@dataclass(frozen=True)
class Row:
    """One architecture on one ground."""

    library: str
    name: str
    made_of: str = ""
    """The class, and how small it was made; empty where none ran in eager."""
    left_out: str = ""
    """Why there is no model, or nothing to compare."""
    is_random: bool = False
    """Whether values depend on numbers that are drawn during a call, and were not compared."""
    version: str = ""
    """Of the library; empty where a row is older than this field."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.library, self.name

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"library": self.library, "name": self.name}
        told |= {key: getattr(self, key) for key in _TOLD if getattr(self, key)}
        return told | {way: _short(outcome) for way, outcome in self.outcomes.items()}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Row:
        own = {key: told[key] for key in ("library", "name", *_TOLD) if key in told}
        outcomes = {
            way: Outcome(**{**value, "eagerly": tuple(value.get("eagerly", ()))})
            for way, value in told.items()
            if isinstance(value, Mapping)
        }
        return cls(**own, outcomes=outcomes)


def _short(outcome: Outcome) -> dict[str, Any]:
    """Without what is empty, and seconds to a hundredth: fewer lines change when it is made again."""
    told = outcome._asdict() | {"seconds": round(outcome.seconds, 2)}
    return {key: value for key, value in told.items() if value or key == "kind"}


def file_of(root: Path, ground: str) -> Path:
    return root / FOLDER / f"{ground}.json"


def read(file: Path) -> list[Row]:
    """The rows of a ground; none where there is no file."""
    return [Row.from_dict(told) for told in json.loads(file.read_text())] if file.exists() else []


def merged(kept: Iterable[Row], fresh: Iterable[Row]) -> list[Row]:
    """All rows in their order; where both have one, the fresh one."""
    rows = {row.key: row for row in (*kept, *fresh)}
    return [rows[key] for key in sorted(rows)]


def write(file: Path, rows: Iterable[Row]) -> None:
    """One line for each row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row.to_dict(), ensure_ascii=False) for row in rows)
    file.write_text(f"[\n{lines}\n]\n")
