"""One bar on the terminal, of the outermost work, wiped when it is done."""

from __future__ import annotations

import io
import sys

import pytest

from air_graph import progress
from air_graph.progress import Progress, progress_on_terminal, showing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def opened(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In the test itself: pytest puts its own standard error in place between a fixture and the test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)
    monkeypatch.setattr(Progress.__init__, "__defaults__", (0.0,))
    return made


def test_work_inside_other_work_draws_no_second_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    with showing(progress_on_terminal(2, unit="modes"), "demo") as outer:
        assert outer is not None
        outer.advance(text="demo: eager")
        with showing(progress_on_terminal(10), "a capture") as inner:
            assert inner is not None
            inner.advance(5)
        outer.advance(text="demo: reduce-overhead")
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn == [
        "",
        "demo: eager  [##########..........]  1 of 2 modes",
        "demo: reduce-overhead  [####################]  2 of 2 modes",
        "",
    ]
    with showing(progress_on_terminal(10), "a capture") as alone:
        assert alone is not None
        alone.advance(5)
    assert "a capture  [##########..........]  5 of 10 operators" in terminal.getvalue()


def test_work_that_fails_leaves_nothing_and_the_next_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)

    def fails() -> None:
        with showing(progress_on_terminal(3), "fails") as bar:
            assert bar is not None
            bar.advance()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert terminal.getvalue().endswith("\r\x1b[K")
    with showing(progress_on_terminal(3), "next") as bar:
        assert bar is not None
        bar.advance()
    assert "next  [" in terminal.getvalue()


def test_off_a_terminal_and_where_nobody_wants_it_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress_on_terminal(3, wanted=False) is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress_on_terminal(3) is None
    monkeypatch.setattr(sys, "stderr", None)
    assert progress_on_terminal(3) is None
