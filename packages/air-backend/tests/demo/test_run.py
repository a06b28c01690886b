"""The demo compares every mode with eager, on whatever ground there is."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from air_backend import demo
from air_backend._ground import best_ground
from air_backend.demo.errors import DemoMismatch

SMALL = demo.LlamaSize(layers=2, hidden=64, feed_forward=96, vocabulary=128)


def check(report: demo.DemoReport, layers: int) -> None:
    rows = {row.mode: row for row in report.rows}
    assert set(rows) == {"eager", "run_eagerly", "reduce-overhead", "max-autotune"}
    assert rows["reduce-overhead"].captures == 2
    assert rows["reduce-overhead"].copies_removed == 2 * 2 * layers
    assert all(row.difference < 1e-4 for row in report.rows)


def test_N01_every_mode_equals_eager_on_plain_cpu_tensors(host_demo: demo.DemoReport) -> None:
    check(host_demo, demo.LlamaSize().layers // 2)


@pytest.mark.npu("CUDA has one of the demo's two modes")
def test_N02_every_mode_equals_eager_on_the_real_torch_npu() -> None:
    ground = best_ground()
    assert ground.device.type == "npu"
    check(demo.run_demo(ground, SMALL), SMALL.layers)


def test_a_mode_that_computes_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    original = demo.Llama.forward

    def wrong(self: Any, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        logits = original(self, tokens, position)
        return logits + 1 if torch.compiler.is_compiling() else logits

    monkeypatch.setattr(demo.Llama, "forward", wrong)
    host = dataclasses.replace(best_ground(), device=torch.device("cpu"), modes=())
    with pytest.raises(DemoMismatch, match="run_eagerly differs from eager by 1"):
        demo.run_demo(host, SMALL)
