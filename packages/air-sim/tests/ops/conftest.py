"""A failed kernel is reported once in these tests: one operator must not spoil the ones after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import air_sim

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def each_error_is_reported_once() -> Iterator[None]:
    """For one test: those of other folders, which come afterwards in this process, need the default."""
    if air_sim.active() is None:
        yield
        return
    air_sim.change(sticky=False)
    yield
    air_sim.change(sticky=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The pass rate of OpInfo, when it ran."""
    from opinfo_summary import summary

    for line in summary():
        terminalreporter.write_line(line)
