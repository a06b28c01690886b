"""What the two runs of a test say together, and the recorded list of what only private code of others can pass.

A row of the list names the suite's module, the tests, the reason, and a text that the failure must have in it: a test
that begins to fail in another way is ours again. A row with `gap = true` is about something that anybody may use and
AIR does not have: it fails nothing, and counts in the share that passes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import tomllib

LIST: Final = Path(__file__).with_name("private.toml")
BAD: Final = frozenset({"fail", "died", "late", "unseen"})
IMPORT: Final = "(import)"
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Failed|Refused|Exit)\b")


class Verdict(Enum):
    """In the order in which they are counted on a line."""

    PASS = "pass"
    BOTH = "fails in both"
    PRIVATE = "private name"
    GAP = "known gap"
    OURS = "ours"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Ran:
    """One test in one run."""

    outcome: str
    why: str = ""
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        return self.outcome in BAD


@dataclass(frozen=True)
class Private:
    """Why a test cannot pass, and what its failure has in it; a gap is nothing private, and is counted."""

    reason: str
    shows: str
    gap: bool = False


@dataclass(frozen=True)
class Judged:
    """A test with its verdict."""

    module: str
    test: str
    verdict: Verdict
    air: Ran
    reason: str = ""


Listed = Mapping[tuple[str, str], Private]


def read_list(path: Path = LIST) -> dict[tuple[str, str], Private]:
    """The recorded list, by module and test."""
    found = {}
    for row in tomllib.loads(path.read_text()).get("private", []):
        for test in row["tests"]:
            if (key := (row["module"], test)) in found:
                raise ValueError(f"{path.name}: {row['module']} {test} is listed twice; keep one row")
            found[key] = Private(row["reason"], row["shows"], row.get("gap", False))
    return found


def read_run(path: Path) -> dict[str, Ran]:
    """The tests that a runner told of, by name; none where it ended before the first."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["test"]: Ran(row["outcome"], row["why"], row["seconds"]) for row in rows}


def judged(module: str, air: Mapping[str, Ran], real: Mapping[str, Ran], listed: Listed) -> Iterator[Judged]:
    """A verdict for each test that either run knows; a module that cannot be imported fails in each of its tests."""
    names = [name for name in dict.fromkeys((*real, *air)) if name != IMPORT]
    for test in names or [IMPORT]:
        ours, theirs = (_of(test, ran) for ran in (air, real))
        if not ours.bad:
            yield Judged(module, test, Verdict.SKIPPED if ours.outcome == "skip" else Verdict.PASS, ours)
        elif theirs.bad:
            yield Judged(module, test, Verdict.BOTH, ours)
        else:
            known = listed.get((module, test)) or listed.get((module, "*"))
            verdict = Verdict.OURS
            if known is not None and known.shows in ours.why:
                verdict = Verdict.GAP if known.gap else Verdict.PRIVATE
            yield Judged(module, test, verdict, ours, known.reason if known else "")


def _of(test: str, ran: Mapping[str, Ran]) -> Ran:
    return ran.get(test) or ran.get(IMPORT) or Ran("died", "the runner ended before it")


def counts(results: Iterable[Judged]) -> str:
    """One line: how many of each verdict."""
    counted = Counter(result.verdict for result in results)
    return ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict if counted[verdict])


def share(results: Sequence[Judged]) -> float:
    """Of the tests that the real one passes and that look at nothing private, the part that passes with AIR."""
    passed = sum(result.verdict is Verdict.PASS for result in results)
    ours = sum(result.verdict in (Verdict.OURS, Verdict.GAP) for result in results)
    return passed / (passed + ours) if passed + ours else 1.0


def stale(results: Iterable[Judged], listed: Listed) -> list[str]:
    """Rows of the list whose test passes now: they are to be taken out."""
    passing = {(result.module, result.test) for result in results if result.verdict is Verdict.PASS}
    return [f"{module} {test}" for module, test in listed if (module, test) in passing]


def last_line(why: str) -> str:
    """The line of a failure that says what happened: its last exception, else its last line."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return (raised or lines or [""])[-1]
