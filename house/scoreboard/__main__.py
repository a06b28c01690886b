"""Gathers what benchmarks wrote, and makes the document and the page of it.

python -m house.scoreboard gather --ground cpu FOLDER   benchmarks/results/cpu.json from the JSON files of a folder
python -m house.scoreboard pages                        docs/performance.md, and build/scoreboard.html with plots
python -m house.scoreboard check                        fail when the document is out of date, or a loss has no reason
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from house.scoreboard import document, page
from house.scoreboard.board import GROUNDS, Board, boards, written
from house.scoreboard.sources import sections

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = Path("benchmarks/results")
DOCUMENT: Final = Path("docs/performance.md")
PAGE: Final = Path("build/scoreboard.html")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def gathered(ground: str, folder: Path) -> Board:
    """What the files of a folder hold for a ground."""
    found: dict[str, Any] = {}
    for file in sorted(folder.glob("*.json")):
        found |= json.loads(file.read_text())
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Board(ground, day, _commit(), _machine(), tuple(sections(ground, found)))


def _commit() -> str:
    words = ("git", "rev-parse", "--short", "HEAD")
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"


def _machine() -> dict[str, str]:
    versions = {name: _version(name) for name in ("torch", "torch_npu")}
    return {
        "Python": platform.python_version(),
        **{name: version for name, version in versions.items() if version},
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def check(root: Path) -> list[str]:
    """What is wrong with the recorded boards and the document of them."""
    found = boards(root / RESULTS)
    wrong = [fault for board in found.values() if board is not None for fault in board.faults()]
    there = root / DOCUMENT
    if not there.exists() or there.read_text() != document.page(found):
        wrong.append(f"{DOCUMENT} is out of date: python -m house.scoreboard pages")
    return wrong


def pages(root: Path) -> None:
    """Writes the document and the page with plots."""
    found = boards(root / RESULTS)
    (root / DOCUMENT).write_text(document.page(found))
    (root / PAGE).parent.mkdir(exist_ok=True)
    (root / PAGE).write_text(page.page(found))
    say(f"{DOCUMENT} and {PAGE} written")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m house.scoreboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    gather = commands.add_parser("gather", help="a board from the files that benchmarks wrote")
    gather.add_argument("--ground", choices=sorted(GROUNDS), required=True)
    gather.add_argument("folder", type=Path)
    commands.add_parser("pages", help="write the document and the page")
    commands.add_parser("check", help="fail when the document is out of date")
    asked = parser.parse_args(arguments)
    if asked.command == "gather":
        board = gathered(asked.ground, asked.folder)
        if not board.sections:
            say(f"{asked.folder} holds no table for {asked.ground}: run its benchmarks with --json first")
            return 1
        (ROOT / RESULTS).mkdir(parents=True, exist_ok=True)
        (ROOT / RESULTS / f"{asked.ground}.json").write_text(written(board))
        say(f"{RESULTS / asked.ground}.json: {len(board.sections)} tables")
        return 0
    if asked.command == "pages":
        pages(ROOT)
        return 0
    wrong = check(ROOT)
    for line in wrong:
        say(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
