"""`air doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse
import dataclasses
import json

from air_backend.cli import _table
from air_backend.doctor import examine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    findings = examine()
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        rows = [(f.subject, f.state, f.seen, f.advice) for f in findings]
        print(
            _table.text(("what", "state", "seen", "advice"), rows, right=False, width=_table.terminal_width())
        )
    return 1 if any(finding.state == "broken" for finding in findings) else 0
