"""Writes a page with the graph before and after each pass side by side."""

from __future__ import annotations

import difflib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from air_fxpasses._report import PipelineReport, Step
from air_graph.files import write_text

_STYLE = """
body { font: 14px sans-serif; margin: 2em }
table.diff { font: 12px monospace; border-collapse: collapse; width: 100% }
table.diff td { padding: 0 .5em; white-space: pre-wrap; vertical-align: top; width: 49% }
.diff_add { background: #d6f5d6 } .diff_sub { background: #fad7d7 } .diff_chg { background: #fff3c4 }
.diff_header, .diff_next { display: none } .quiet { color: #777 } .reason { font-family: monospace }
"""


@dataclass(frozen=True)
class Listing:
    """The text of a graph around one pass."""

    name: str
    before: str
    after: str


def write_page(path: Path, runs: Sequence[tuple[PipelineReport, Sequence[Listing]]]) -> None:
    """One page for every graph and every pass of every run."""
    parts = ["<!doctype html><meta charset=utf-8><title>air-passes</title>", f"<style>{_STYLE}</style>"]
    for number, (report, listings) in enumerate(runs):
        parts.append(f"<h1>graph {number}</h1><p>{html.escape(report.summary())}</p>")
        for step, listing in zip(report.steps, listings, strict=True):
            parts.extend(_step(step, listing))
    write_text(path, "\n".join(parts), "the page of passes")


def _step(step: Step, listing: Listing) -> list[str]:
    said = "; ".join(step.notes) or (f"rolled back: {step.rolled_back}" if step.rolled_back else "no change")
    parts = [f"<h2>{html.escape(step.name)}</h2><p>{html.escape(said)}, {step.seconds * 1e3:.1f} ms</p>"]
    if listing.before != listing.after:
        table = difflib.HtmlDiff(wrapcolumn=110).make_table(
            listing.before.splitlines(), listing.after.splitlines(), context=True, numlines=2
        )
        parts.append(table)
    reasons = "".join(f"<li class=reason>{html.escape(str(refusal))}</li>" for refusal in step.refusals)
    parts.append(f"<ul>{reasons}</ul>" if reasons else "<p class=quiet>nothing was refused</p>")
    return parts
