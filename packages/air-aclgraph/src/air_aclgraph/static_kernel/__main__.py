"""Shows and removes what static kernel compilation has left in a build directory.

    python -m air_aclgraph.static_kernel list <build directory>
    python -m air_aclgraph.static_kernel clean <build directory> [--keep-bytes N] [--cache <directory>]

`clean` removes the oldest products and the cached kernels that were unused the longest; products of processes that
still run stay.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from air_aclgraph.static_kernel import _cache, _tree
from air_config.terminal import printing


def main(argv: Sequence[str]) -> int:
    """Runs one command; 1 when there is no such directory."""
    parser = argparse.ArgumentParser(prog="python -m air_aclgraph.static_kernel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("list", "clean"))
    parser.add_argument("directory", type=Path, help="the build directory")
    parser.add_argument("--cache", type=Path, help="the kernel cache, where it is not in the build directory")
    parser.add_argument("--keep-bytes", type=int, default=0, help="how much of each may stay")
    given = parser.parse_args(argv)
    if not given.directory.is_dir():
        print(f"{given.directory} is no directory: give the one that the program built in", file=sys.stderr)
        return 1
    if given.cache is not None and not given.cache.is_dir():
        print(f"{given.cache} is no directory: give the kernel cache, or leave --cache out", file=sys.stderr)
        return 1
    cache = given.cache or given.directory / _tree.CACHE
    if given.command == "list":
        _list(given.directory, cache)
        return 0
    removed = [*_tree.prune(given.directory, given.keep_bytes), *_cache.prune(cache, given.keep_bytes)]
    for folder in removed:
        print(f"removed {folder}")
    print(f"{len(removed)} removed")
    return 0


def _list(build_dir: Path, cache: Path) -> None:
    for run in _tree.runs(build_dir):
        state = "in use" if _tree.is_alive(_tree.owner(run)) else "ended"
        print(f"{_tree.nbytes(run):>12} bytes  {state:<7} {run}")
    for package in _cache.entries(cache):
        print(f"{_tree.nbytes(package):>12} bytes  cached  {package}")


if __name__ == "__main__":
    raise SystemExit(printing(lambda: main(sys.argv[1:])))
