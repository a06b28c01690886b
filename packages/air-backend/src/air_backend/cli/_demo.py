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
    print(f"tiny Llama on {report.ground}" + (f" ({report.note})" if report.note else ""))
    rows = [_cells(row, report.rows[0]) for row in report.rows]
    print(_table.text(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    print("every mode computes what eager computes")
    return 0


def _cells(row: Any, eager: Any) -> dict[str, str]:
    """The cells of one row, by the heads of their columns."""
    return {
        "mode": row.mode,
        "first round s": f"{row.first_call_s:.2f}",
        "prefill ms": f"{row.prefill_ms:.2f}",
        "decode ms": f"{row.decode_ms:.3f}",
        "x eager": f"{row.decode_ms / eager.decode_ms:.2f}",
        "max diff": f"{row.difference:.1e}",
        "graphs": str(row.graphs),
        "captures": str(row.captures),
        "copies removed": str(row.copies_removed),
    }
