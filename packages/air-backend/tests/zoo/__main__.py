"""Runs a part of the zoo on one ground, merges its rows with those that are kept, and writes the page."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from zoo import architectures, page, results, running
from zoo.architectures import LIBRARIES, Shard
from zoo.worker import GROUNDS, Task, ground_of

ROOT = Path(__file__).resolve().parents[4]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zoo", description=__doc__)
    parser.add_argument("--shard", type=Shard.parsed, default=Shard(0, 1), help="i/n: part i of n, from 0")
    parser.add_argument("--ground", choices=tuple(GROUNDS), default="cpu")
    parser.add_argument("--libraries", type=lambda text: text.split(","), default=list(LIBRARIES))
    parser.add_argument("--modes", type=lambda text: text.split(","), help="all that the ground serves")
    parser.add_argument("--only", nargs="+", default=(), help="architectures by name")
    parser.add_argument("--missing", action="store_true", help="those alone that no row is kept of")
    parser.add_argument(
        "--again", nargs="+", default=(), help="those alone whose row is: fails, torch, left, good"
    )
    parser.add_argument("--train", action="store_true", help="steps of training; gradients are compared too")
    parser.add_argument("--seconds", type=float, default=running.SECONDS, help="for each architecture")
    parser.add_argument("--page", action="store_true", help="make the page of what is kept, and run nothing")
    parser.add_argument("--dry", action="store_true", help="print rows, and keep nothing")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    asked = arguments(argv)
    file = results.file_of(ROOT, f"{asked.ground}-training" if asked.train else asked.ground)
    broken, fallen = ([], []) if asked.page else _run(asked, file)
    if not asked.dry:
        page.write(ROOT)
    for row in broken:
        print(f"runs in eager no more, with {row.library} {row.version}: {row.name}")
    for row in fallen:
        print(f"was good: {page.line(row)}")
    return 1 if fallen else 0


def _run(asked: argparse.Namespace, file: Path) -> tuple[list[results.Row], list[results.Row]]:
    """The rows that another version of their library broke, and those that are not good any more."""
    from zoo.unloaded import declare_what_torchvision_lacks

    declare_what_torchvision_lacks()
    wanted = architectures.listed(asked.libraries, asked.shard)
    kept = {row.key: row for row in results.read(file)}
    if asked.only:
        wanted = [one for one in wanted if one.name in asked.only]
    if asked.missing:
        wanted = [one for one in wanted if one not in kept]
    if asked.again:
        wanted = [one for one in wanted if one in kept and page.verdict(kept[one]).split()[0] in asked.again]
    log = Path(tempfile.gettempdir()) / "zoo.log"
    modes = asked.modes or ground_of(asked.ground).modes
    task = Task(asked.ground, ("aot_eager", *modes), str(log), asked.train)
    begun, fresh = time.monotonic(), []
    for number, row in enumerate(running.rows(task, wanted, asked.seconds), 1):
        print(f"{number}/{len(wanted)} {time.monotonic() - begun:5.0f} s  {page.line(row)}", flush=True)
        fresh.append(row)
        if not asked.dry and (number % 5 == 0 or number == len(wanted)):
            results.write(file, results.merged(results.read(file), fresh))
    return page.broken_by_library(kept.values(), fresh), page.fallen(kept.values(), fresh)


if __name__ == "__main__":
    sys.exit(main())
