"""The `air-passes` command: reads the words; torch is imported only when there is something to do."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0, 1 when a pass fails or is rolled back, 2 when it cannot be used so."""
    options = _parser().parse_args(arguments)
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch's; no pass needs it
    from air_config.terminal import printing
    from air_fxpasses.cli import execute

    return printing(lambda: execute(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="air-passes", description="Shows what the FX passes of AIR do to a graph."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    show = commands.add_parser("show", help="print the graph before and after each pass, with the reasons")
    show.add_argument("target", help="file.py:function, returning a GraphModule or (function, inputs)")
    show.add_argument(
        "--pass",
        dest="own",
        action="append",
        default=[],
        metavar="file.py:NAME",
        help="run this pass of your own before the others: a class, an object or a function (repeatable)",
    )
    show.add_argument(
        "--only", action="append", default=[], metavar="PASS", help="run this pass alone (repeatable)"
    )
    show.add_argument(
        "--verify", action="store_true", help="prove every step, and undo the one that is wrong"
    )
    show.add_argument("--html", metavar="PAGE", help="also write a page with both graphs side by side")
    show.add_argument("--json", action="store_true", help="print nothing but the report, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
