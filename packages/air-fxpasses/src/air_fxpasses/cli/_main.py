"""Runs the passes on the graphs of a file and prints what they do; `air_passes` reads the command line."""

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
from air_fxpasses.cli._build import build, own_pass
from air_fxpasses.cli._page import Listing, write_page
from air_fxpasses.errors import BadArgument, FxPassError
from air_graph.errors import CannotWrite
from air_graph.files import refuse_unwritable


def execute(options: argparse.Namespace) -> int:
    """The command once its words are read: 1 when a pass fails or is rolled back, 2 when it cannot be used so."""
    try:
        if options.html:
            refuse_unwritable(options.html, "the page")
        runs = _run(options)
        if options.html:
            write_page(Path(options.html), runs)
    except (FxPassError, CannotWrite) as error:
        print(f"air-passes: {error}", file=sys.stderr)
        return 2 if isinstance(error, (BadArgument, CannotWrite)) else 1
    if options.json:
        print(json.dumps([report.to_dict() for report, _ in runs], indent=2))
    else:
        _print(runs)
    return 1 if any(step.rolled_back for report, _ in runs for step in report.steps) else 0


def _run(options: argparse.Namespace) -> list[tuple[PipelineReport, list[Listing]]]:
    passes = _chosen(options.only, [own_pass(target) for target in options.own])
    work = build(options.target)
    runs = []
    for gm in work.graphs:
        listings: list[Listing] = []

        def keep(name: str, before: str, after: str, listings: list[Listing] = listings) -> None:
            listings.append(Listing(name, before, after))

        pipeline = Pipeline(passes, verify=options.verify, listing=keep)
        runs.append((pipeline.run(gm, work.inputs), listings))
    return runs


def _chosen(names: Sequence[str], own: Sequence[Pass]) -> tuple[Pass, ...]:
    """The passes of the user, and then the default ones; of both those alone that are named, where some are."""
    passes = (*own, *default_passes())
    known = dict.fromkeys(Pipeline(passes).names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadArgument(
            f"there is no pass {', '.join(unknown)}",
            advice=f"there are {', '.join(known)}; --pass file.py:name adds one of your own",
        )
    return tuple(one for one in passes if not names or one.name in names)


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
