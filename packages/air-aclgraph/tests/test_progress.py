"""A bar on a terminal while a capture runs, a line in the log when it is done."""

from __future__ import annotations

import io
import logging
import sys

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable
from air_aclgraph._progress import progress_of
from air_graph.progress import PATIENCE_S, Progress


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def long_chain(x: Tensor) -> tuple[Tensor, ...]:
    for _ in range(400):
        x = x + 1
    return (x,)


def test_a_capture_draws_a_bar_on_a_terminal_and_wipes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("air_graph.progress.PAUSE_S", 0.0)
    monkeypatch.setattr(Progress.__init__, "__defaults__", (0.0,))
    run = executable(long_chain, torch.zeros(2))
    run(torch.zeros(2))
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[1].startswith("long_chain key ()  [")
    assert drawn[-2].endswith("[####################]  400 of 400 operators")
    assert drawn[-1] == ""
    before = terminal.getvalue()
    assert run(torch.zeros(2))[0].tolist() == [400.0, 400.0]
    assert terminal.getvalue() == before, "a replay draws nothing"


def test_a_capture_that_fails_wipes_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(Progress.__init__, "__defaults__", (0.0,))
    run = executable(lambda x: (x + 1 + 1,), torch.ones(2))
    monkeypatch.setattr(run._making, "_flat_body", lambda *inputs: [run._body.function(*inputs), 1 / 0])
    with pytest.raises(ZeroDivisionError):
        run(torch.ones(2))
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_short_capture_draws_nothing() -> None:
    terminal = Terminal()
    progress = Progress(10, terminal)
    progress.begin("short")
    progress.advance(5)
    progress.end()
    assert not terminal.getvalue()
    assert PATIENCE_S > 0


def test_off_a_terminal_there_is_the_line_in_the_log_and_no_report_in_the_graph(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert progress_of([]) is None
    run = executable(long_chain, torch.zeros(2))
    with caplog.at_level(logging.INFO, "air_aclgraph"):
        run(torch.zeros(2))
    lines = [r.getMessage() for r in caplog.records if "captured" in r.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("long_chain key () captured: 400 tasks")
    assert "advance" not in run._body.source


def test_the_bar_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress_of([]) is not None
    monkeypatch.setenv("ACLGRAPH_PROGRESS", "0")
    assert progress_of([]) is None
