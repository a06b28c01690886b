"""`air demo`: runs the demo and prints its table."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from air_backend._ground import best_ground
from air_backend.cli import _table
from air_backend.demo import run_demo


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    report = run_demo(best_ground())
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report), indent=2))
        return 0
    print(
        f"tiny Llama on {report.ground} ({report.note})" if report.note else f"tiny Llama on {report.ground}"
    )
    print(_table.text(HEAD, [_cells(row, report.rows[0]) for row in report.rows]))
    print("every mode computes what eager computes")
    return 0


HEAD = (
    "mode",
    "first round s",
    "prefill ms",
    "decode ms",
    "x eager",
    "max diff",
    "graphs",
    "captures",
    "copies removed",
)


def _cells(row: Any, eager: Any) -> tuple[str, ...]:
    return (
        row.mode,
        f"{row.first_call_s:.2f}",
        f"{row.prefill_ms:.2f}",
        f"{row.decode_ms:.3f}",
        f"{row.decode_ms / eager.decode_ms:.2f}",
        f"{row.difference:.1e}",
        str(row.graphs),
        str(row.captures),
        str(row.copies_removed),
    )
