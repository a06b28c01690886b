"""`python -m air_geir coverage` and `python -m air_geir operators`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from air_config.terminal import printing
from air_geir.coverage import core_coverage, operators_page, report
from air_graph.errors import CannotWrite
from air_graph.files import write_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the core ATen coverage, or writes the page of operators."""
    parser = argparse.ArgumentParser(prog="python -m air_geir", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("coverage", help="how core ATen is lowered, and what is missing")
    page = commands.add_parser("operators", help="the page of every operator with a converter")
    place = page.add_mutually_exclusive_group()
    place.add_argument("--output", type=Path, help="file to write; standard output when left out")
    place.add_argument("--check", type=Path, metavar="FILE", help="fail when the file is out of date")
    chosen = parser.parse_args(arguments)
    try:
        return printing(lambda: _run(chosen))
    except (CannotWrite, OSError) as error:
        print(f"python -m air_geir: {error}", file=sys.stderr)
        return 2


def _run(chosen: argparse.Namespace) -> int:
    text = report(core_coverage()) if chosen.command == "coverage" else operators_page()
    target: Path | None = getattr(chosen, "output", None)
    written: Path | None = getattr(chosen, "check", None)
    if written is not None:
        if written.read_text(encoding="utf-8") != text:
            print(
                f"{written} is out of date: python -m air_geir operators --output {written}", file=sys.stderr
            )
            return 1
    elif target is None:
        print(text)
    else:
        write_text(target, text, "the page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
