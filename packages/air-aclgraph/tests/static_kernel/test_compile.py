from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from air_aclgraph.static_kernel import StaticKernels
from air_aclgraph.static_kernel._compile import progress
from static_kernel.stand_in import StandIn

Make = Callable[..., StaticKernels]


def test_N17_the_bar_fills_with_the_time_that_earlier_runs_took() -> None:
    assert progress(12.0, None, 7) == "static kernels: 7 operators, 12 s"
    assert progress(0.0, 60.0, 7).endswith("of about 60 s [" + "." * 30 + "]")
    assert progress(30.0, 60.0, 7).endswith("[" + "#" * 15 + "." * 15 + "]")
    assert progress(90.0, 60.0, 7).endswith("[" + "#" * 29 + "." + "]"), "never full before it is done"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_N17_progress_is_drawn_on_a_terminal_and_cleared(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    make().around((), cann.model("Add"))
    drawn = screen.getvalue()
    assert "\r\x1b[Kstatic kernels: 1 operators, 0 s" in drawn
    assert drawn.endswith("\r\x1b[K")
