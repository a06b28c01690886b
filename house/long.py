"""Long sessions in rotation: runs what was green longest ago first, and keeps a table of when each was.

    nox -s long -- --minutes 120                        what is due, as far as the time goes
    nox -s long -- --minutes 60 "zoo 1/8" bench-geir    these instead
    python -m house.long --check                        says what was green more than 100 commits ago, or never

CI runs none of them: together they take hours. The table, docs/long-sessions.toml, shows that they are run elsewhere. A
session of hours is cut into parts of minutes: by package, by shard of the zoo, by a number of random programs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import tomllib

from house.benchmarks import BENCHMARKS
from house.environments import other_pythons
from house.packages import NPU_TESTED, OLDER_TORCHES, TORCH_TESTED
from house.sessions.long_runs import FUZZ, NPU_SETTINGS

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs/long-sessions.toml"
OLD = 100
OUT_OF_TIME = 124  # how `timeout` ends


@dataclass(frozen=True)
class Part:
    """What is run in one go: a session, or a share of one."""

    name: str
    session: str
    arguments: tuple[str, ...] = ()


def tests_of(session: str, packages: Iterable[str]) -> list[Part]:
    """One part for each package whose tests a session runs."""
    return [Part(f"{session} {name}", session, (f"packages/{name}/tests",)) for name in packages]


ZOO_SHARDS = 8
PROGRAMS = "500"  # for each mode; on air-sim a tenth of it
NEW = "<new>"  # a seed that no part of an earlier commit began with
PARTS = (
    *tests_of("slow", TORCH_TESTED),
    *tests_of("npu-slow", NPU_TESTED),
    *(Part(f"npu-settings {name}", f"npu-settings(setting='{name}')") for name in NPU_SETTINGS),
    *(Part(f"fuzz {kind}", "fuzz", (PROGRAMS, NEW, kind)) for kind in FUZZ),
    Part("npu-fuzz", "npu-fuzz", (PROGRAMS, NEW)),
    *(Part(f"older-torch {torch}", f"older-torch(torch='{torch}')") for torch in OLDER_TORCHES),
    *(Part(f"other-python {python}", f"other-python-{python}") for python in other_pythons()),
    Part("sim-opinfo", "sim-opinfo"),
    Part("sim-sanitize", "sim-sanitize"),
    *(
        Part(f"zoo {number + 1}/{ZOO_SHARDS}", "zoo", ("--dry", "--shard", f"{number}/{ZOO_SHARDS}"))
        for number in range(ZOO_SHARDS)
    ),
    *(Part(name, name) for name in (f"bench-{package.removeprefix('air-')}" for package in BENCHMARKS)),
    Part("examples-all", "examples-all"),
    Part("release", "release"),
)
NAMES = tuple(part.name for part in PARTS)


@dataclass(frozen=True)
class Green:
    """The last time a part passed."""

    commit: str
    date: str
    minutes: int


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def read(path: Path = TABLE) -> dict[str, Green]:
    """The table; what was never green is not in it."""
    rows = tomllib.loads(path.read_text()) if path.exists() else {}
    return {name: Green(**row) for name, row in rows.items()}


def write(rows: Mapping[str, Green], path: Path = TABLE) -> None:
    text = ["# When each long session was last green. Written by `nox -s long`.\n"]
    for name in sorted(rows):
        row = rows[name]
        text.append(f'["{name}"]\ncommit = "{row.commit}"\ndate = "{row.date}"\nminutes = {row.minutes}\n')
    path.write_text("\n".join(text))


def age(commit: str, root: Path = ROOT) -> int | None:
    """How many commits ago that was; None where this history does not know it."""
    command = ["git", "rev-list", "--count", f"{commit}..HEAD"]
    counted = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return int(counted.stdout) if counted.returncode == 0 else None


def due(rows: Mapping[str, Green], age_of: Callable[[str], int | None] = age) -> list[str]:
    """The parts, the one that was green longest ago first; those that never were come before all."""

    def commits(name: str) -> int:
        found = age_of(rows[name].commit) if name in rows else None
        return sys.maxsize if found is None else found

    return sorted(NAMES, key=commits, reverse=True)


def complaints(rows: Mapping[str, Green], age_of: Callable[[str], int | None] = age) -> list[str]:
    """One line for each part that was not green lately."""
    told = []
    for name in NAMES:
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


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def command(part: Part, number: str) -> list[str]:
    """How a part is started; `number` of the commit chooses the programs that are drawn."""
    arguments = [number + "0000" if word == NEW else word for word in part.arguments]
    return [sys.executable, "-m", "nox", "-s", part.session, *(["--", *arguments] if arguments else [])]


def run(minutes: float, names: Iterable[str], path: Path = TABLE) -> int:
    """Runs parts until the time is over; what passes is put into the table."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout.strip():
        say("the table names commits, and this tree has changes: commit them first")
        return 2
    commit, number = (git("rev-parse", "--short=12", "HEAD"), git("rev-list", "--count", "HEAD"))
    parts = {part.name: part for part in PARTS}
    end = time.monotonic() + 60 * minutes
    failed = []
    for name in names:
        started = time.monotonic()
        row = read(path).get(name)
        needed = 60 * row.minutes if row else 0
        if started + needed >= end:
            say(f"no time left for {name}" + (f", which took {row.minutes} minutes last time" if row else ""))
            continue
        limit = ("timeout", "--kill-after", "30", f"{end - started:.0f}")  # of the whole family of processes
        result = subprocess.run([*limit, *command(parts[name], number)], cwd=ROOT).returncode
        if result == OUT_OF_TIME:
            say(f"{name} did not end in the time that was left")
        elif result:
            failed.append(name)
        else:
            taken = round((time.monotonic() - started) / 60)
            today = datetime.now(timezone.utc).date().isoformat()
            write({**read(path), name: Green(commit, today, taken)}, path)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.long", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--check", action="store_true", help="run nothing; say what is old")
    parser.add_argument("parts", nargs="*", choices=[[], *NAMES], help="these instead of what is due")
    asked = parser.parse_args(arguments)
    if asked.check:
        for line in complaints(read()):
            say(f"long sessions: {line}")
        return 0
    return run(asked.minutes, asked.parts or due(read()))


if __name__ == "__main__":
    sys.exit(main())
