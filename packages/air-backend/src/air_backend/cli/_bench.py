"""`air bench`: runs the benchmarks of a checkout of AIR."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="PACKAGE", help="packages to measure (all)")


def checkout(start: Path) -> Path | None:
    """The checkout of AIR that a folder lies in."""
    for folder in (start, *start.parents):
        if (folder / "noxfile.py").is_file() and (folder / "packages" / "air-backend").is_dir():
            return folder
    return None


def run(arguments: argparse.Namespace) -> int:
    root = checkout(Path.cwd())
    if root is None:
        print(
            "air bench: not in a checkout of AIR; the benchmarks are not part of the wheels", file=sys.stderr
        )
        return 2
    names = [name.removeprefix("air-") for name in arguments.names]
    sessions = ["-s", *(f"bench-{name}" for name in names)] if names else ["-t", "bench"]
    return subprocess.run([sys.executable, "-m", "nox", *sessions], cwd=root).returncode
