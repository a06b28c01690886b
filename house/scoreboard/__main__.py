"""`python -m house.scoreboard`: measures, writes what the records say, or checks that it is up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from house.faults import told, written
from house.scoreboard import _boards, _guide, _page, _records, _runs
from house.scoreboard._records import GROUNDS, Ground

PICTURE: Final = "build/scoreboard.html"


def measure(root: Path, ground: Ground, only: list[str], *, quick: bool, keep: bool) -> int:
    """Runs the benchmarks of a ground; tables whose benchmark did not run stay as they are."""
    if ground == "cuda" and not _records.has_gpu():
        sys.stdout.write("no CUDA device: its tables stay as they are\n")
        return 0
    kept = root if keep else root / "build/scoreboard"
    path = _records.file_of(kept, ground)
    found: dict[str, _boards.Rows] = {}
    failed = []
    for run, data in _runs.results(root, ground, only, quick=quick):
        if isinstance(data, _runs.BenchmarkFailed):
            failed.append(str(data))
        else:
            found |= _boards.taken(run, data)
            known = _records.read(path).boards if only and path.exists() else {}
            _records.write(_records.now(ground, {**known, **found}, quick=quick), path)
    return told(f"not measured: {reason}" for reason in failed)


def documents(root: Path, records: dict[Ground, _records.Record]) -> dict[Path, str]:
    """The pages of the guide that are made of the records."""
    return {root / name: text for name, text in _guide.pages(records).items()}


def main(arguments: Sequence[str], root: Path) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.scoreboard", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a page is out of date"
    )
    parser.add_argument("--measure", choices=GROUNDS, help="run the benchmarks of this ground first")
    parser.add_argument("--only", nargs="+", default=[], help="these benchmarks of the ground alone")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds; not kept")
    parser.add_argument("--keep", action="store_true", help="keep what a quick run found, marked as such")
    asked = parser.parse_args(arguments)
    keep, failed = asked.keep or not asked.quick, 0
    if asked.measure:
        failed = measure(root, asked.measure, asked.only, quick=asked.quick, keep=keep)
    records = _records.read_all(root if keep else root / "build/scoreboard")
    wrong = _boards.unexplained(records)
    if asked.check:
        for path, text in documents(root, records).items():
            wrong += written(path, text, path.relative_to(root), "house.scoreboard", check=True)
    else:
        picture = root / PICTURE
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(_page.page(records))
        for path, text in documents(root, records).items() if keep else ():
            path.write_text(text)
        sys.stdout.write(f"{PICTURE}: {_boards.told(records)}\n")
    return 1 if (told(wrong) and asked.check) or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
