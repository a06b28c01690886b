"""Counts the outcomes of the OpInfo cases and prints the pass rate at the end of the run."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

_kinds: Counter[str] = Counter()
_reasons: Counter[str] = Counter()


def record(kind: str, detail: str | None) -> None:
    """One case has ended this way."""
    _kinds[kind] += 1
    if kind == "excused" and detail:
        _reasons[detail] += 1


def summary() -> list[str]:
    """The lines to print; none when no case ran."""
    total = sum(_kinds.values())
    if not total:
        return []
    comparable = total - _kinds["excused"] - _kinds["fallback"]
    rate = 100 * _kinds["equal"] / comparable if comparable else 0.0
    lines = [
        f"OpInfo on npu: {_kinds['equal']} of {comparable} comparable cases equal the CPU ({rate:.2f} %)",
        f"  {_kinds['fallback']} more are equal but run on the CPU by torch_npu itself; "
        f"{_kinds['excused']} are excused with a reason; {total} cases in all",
    ]
    if target := os.environ.get("AIR_SIM_OPINFO_RECORD"):
        Path(target).write_text(
            json.dumps({"kinds": _kinds, "reasons": _reasons}, indent=1, sort_keys=True) + "\n"
        )
    return lines
