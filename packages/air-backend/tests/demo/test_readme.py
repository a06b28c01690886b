"""The demo's output in the README is what the demo prints, but for the times."""

from __future__ import annotations

import re
from pathlib import Path

from air_backend import demo

README = Path(__file__).parents[4] / "README.md"


def shown() -> dict[str, tuple[str, str, str]]:
    """Mode to graphs, captures and removed copies, as the README has them."""
    rows = re.findall(
        r"^(\S+) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +\S+ +(\d+) +(\d+) +(\d+)$", README.read_text(), re.M
    )
    return {mode: (graphs, captures, copies) for mode, graphs, captures, copies in rows}


def test_the_table_in_the_readme_has_the_rows_that_the_demo_prints(host_demo: demo.DemoReport) -> None:
    twice = 2  # of each layer as many copies are removed, and these are half of the layers
    assert shown() == {
        row.mode: (str(row.graphs), str(row.captures), str(twice * row.copies_removed))
        for row in host_demo.rows
    }
