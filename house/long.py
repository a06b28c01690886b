"""Long sessions in rotation: runs the one that was green longest ago first, and keeps a table of when each was.

    nox -s long -- --minutes 120      what is due, as far as the time goes; the table is docs/long-sessions.toml
    python -m house.long --check      says what was green more than 100 commits ago, or never

CI runs none of them: they take hours. The table shows that they are run elsewhere.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs/long-sessions.toml"
OLD = 100
OUT_OF_TIME = 124
SESSIONS = (
    "slow",
    "npu-slow",
    "fuzz",
    "npu-fuzz",
    "older-torch",
    "sim-opinfo",
    "sim-sanitize",
    "zoo",
    "bench",
    "examples-all",
    "release",
)
TAGS = frozenset({"bench"})  # names of several sessions


@dataclass(frozen=True)
class Green:
    """The last time a session passed."""

    commit: str
    date: str
    minutes: int


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def read(path: Path = TABLE) -> dict[str, Green]:
    """The table; sessions that were never green are not in it."""
    rows = tomllib.loads(path.read_text()) if path.exists() else {}
    return {name: Green(**row) for name, row in rows.items()}


def write(rows: Mapping[str, Green], path: Path = TABLE) -> None:
    text = ["# When each long session was last green. Written by `nox -s long`.\n"]
    for name in sorted(rows):
        row = rows[name]
        text.append(f'[{name}]\ncommit = "{row.commit}"\ndate = "{row.date}"\nminutes = {row.minutes}\n')
    path.write_text("\n".join(text))


def age(commit: str, root: Path = ROOT) -> int | None:
    """How many commits ago that was; None where this history does not know it."""
    command = ["git", "rev-list", "--count", f"{commit}..HEAD"]
    counted = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return int(counted.stdout) if counted.returncode == 0 else None


def due(rows: Mapping[str, Green], age_of: Callable[[str], int | None] = age) -> list[str]:
    """The sessions, the one that was green longest ago first; those that never were come before all."""

    def commits(name: str) -> int:
        found = age_of(rows[name].commit) if name in rows else None
        return sys.maxsize if found is None else found

    return sorted(SESSIONS, key=commits, reverse=True)


def complaints(rows: Mapping[str, Green], age_of: Callable[[str], int | None] = age) -> list[str]:
    """One line for each session that was not green lately."""
    told = []
    for name in SESSIONS:
        if name not in rows:
            told.append(f"{name}: never seen green")
            continue
        commits = age_of(rows[name].commit)
        if commits is None or commits > OLD:
            old = (
                "at a commit that this history does not have" if commits is None else f"{commits} commits ago"
            )
            told.append(f"{name}: last green {old} ({rows[name].commit}, {rows[name].date})")
    return told


def run(minutes: float, names: Iterable[str], path: Path = TABLE) -> int:
    """Runs sessions until the time is over; what passes is put into the table."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout.strip():
        say("the table names commits, and this tree has changes: commit them first")
        return 2
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    end = time.monotonic() + 60 * minutes
    failed = []
    for name in names:
        started = time.monotonic()
        if started >= end:
            say(f"no time left for {name}")
            continue
        limit = ("timeout", "--kill-after", "30", f"{end - started:.0f}")  # of the whole family of processes
        nox = (sys.executable, "-m", "nox", "-t" if name in TAGS else "-s", name)
        result = subprocess.run([*limit, *nox], cwd=ROOT).returncode
        if result == OUT_OF_TIME:
            say(f"{name} did not end in the time that was left")
        elif result:
            failed.append(name)
        else:
            taken = round((time.monotonic() - started) / 60)
            today = datetime.now(UTC).date().isoformat()
            write({**read(path), name: Green(commit.stdout.strip(), today, taken)}, path)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.long", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--check", action="store_true", help="run nothing; say what is old")
    parser.add_argument("sessions", nargs="*", choices=[[], *SESSIONS], help="these instead of what is due")
    asked = parser.parse_args(arguments)
    if asked.check:
        for line in complaints(read()):
            say(f"long session {line}")
        return 0
    return run(asked.minutes, asked.sessions or due(read()))


if __name__ == "__main__":
    sys.exit(main())
