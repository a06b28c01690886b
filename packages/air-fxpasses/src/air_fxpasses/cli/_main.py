"""Parses the command line and prints what the passes do to a graph."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from air_fxpasses._defaults import default_passes
from air_fxpasses._pass import Pass
from air_fxpasses._pipeline import Pipeline
from air_fxpasses._report import PipelineReport
from air_fxpasses.cli._build import build
from air_fxpasses.cli._page import Listing, write_page
from air_fxpasses.errors import FxPassError


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when the input cannot be used or a pass fails, 2 when a step was rolled back."""
    options = _parser().parse_args(arguments)
    try:
        runs = _run(options)
    except FxPassError as error:
        print(f"air-passes: {error}", file=sys.stderr)
        return 1
    if options.html:
        write_page(Path(options.html), runs)
    if options.json:
        print(json.dumps([report.to_dict() for report, _ in runs], indent=2))
    else:
        _print(runs)
    return 2 if any(step.rolled_back for report, _ in runs for step in report.steps) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="air-passes", description="Shows what the FX passes of AIR do to a graph."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    show = commands.add_parser("show", help="print the graph before and after each pass, with the reasons")
    show.add_argument("target", help="file.py:function, returning a GraphModule or (function, inputs)")
    show.add_argument(
        "--only", action="append", default=[], metavar="PASS", help="run this pass alone (repeatable)"
    )
    show.add_argument(
        "--verify", action="store_true", help="prove every step, and undo the one that is wrong"
    )
    show.add_argument("--html", metavar="PAGE", help="also write a page with both graphs side by side")
    show.add_argument("--json", action="store_true", help="print nothing but the report, as JSON")
    return parser


def _run(options: argparse.Namespace) -> list[tuple[PipelineReport, list[Listing]]]:
    passes = _chosen(options.only)
    work = build(options.target)
    runs = []
    for gm in work.graphs:
        listings: list[Listing] = []

        def keep(name: str, before: str, after: str, listings: list[Listing] = listings) -> None:
            listings.append(Listing(name, before, after))

        pipeline = Pipeline(passes, verify=options.verify, listing=keep)
        runs.append((pipeline.run(gm, work.inputs), listings))
    return runs


def _chosen(names: Sequence[str]) -> tuple[Pass, ...]:
    known = list(dict.fromkeys(one.name for one in default_passes()))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FxPassError(f"there is no pass {', '.join(unknown)}; there are {', '.join(known)}")
    return default_passes(lambda one: not names or one.name in names)


def _print(runs: Sequence[tuple[PipelineReport, Sequence[Listing]]]) -> None:
    for number, (report, listings) in enumerate(runs):
        print(f"== graph {number}")
        if listings:
            print(listings[0].before)
        for listing in listings:
            if listing.before != listing.after:
                print(f"\n-- after {listing.name}\n{listing.after}")
        print()
        print(report.explain())
