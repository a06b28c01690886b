"""What takes long shows how far it is: the conversion to Ascend IR, and the demo, on a terminal alone."""

from __future__ import annotations

import io
import sys

import pytest
import torch
from torch import Tensor

from air_backend import demo
from air_backend._ground import Ground
from air_graph import progress
from air_graph.progress import Progress


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


def long_chain(x: Tensor) -> Tensor:
    for _ in range(40):
        x = torch.relu(x + 1)
    return x


def test_a_conversion_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    torch.compile(long_chain, backend="air", mode="max-autotune")(torch.ones(2))
    assert "to Ascend IR  [####################]  82 of 82 nodes" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_demo_shows_one_bar_over_all_its_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    size = demo.LlamaSize(
        layers=1, hidden=16, heads=2, kv_heads=1, feed_forward=16, vocabulary=32, cache_length=48
    )
    demo.run_demo(Ground(torch.device("cpu"), ("reduce-overhead",), ""), size)
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[-1] == ""
    assert drawn[-2] == "demo: reduce-overhead  [####################]  12 of 12 rounds"
    assert all(line.startswith("demo") for line in drawn[1:-1]), "captures inside draw none"
