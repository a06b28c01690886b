"""Every pass names the option that switches it, and that option switches this pass and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import _passes, explain
from air_config import OPTIONS, CompilerConfig, Context, resolve
from air_fxpasses import Pass, default_passes
from forked import run_python

SWITCHED = [one for one in default_passes() if one.option]


def chosen(config: CompilerConfig) -> list[Pass]:
    return list(_passes.chosen(resolve(config, Context(device="cpu")), [], config))


@pytest.mark.parametrize("one", SWITCHED, ids=lambda one: one.name)
def test_the_option_of_a_pass_switches_it_and_nothing_else(one: Pass) -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    before = chosen(config)
    assert one in before
    config.set(one.option, not OPTIONS[one.option].default)
    assert chosen(config) == [other for other in before if other != one]


def test_in_max_autotune_no_pass_says_in_whose_memory_a_value_lies() -> None:
    config = CompilerConfig()
    config.mode = "max-autotune"
    assert [one.name for one in chosen(config)] == [
        "eliminate_dead_code",
        "decompose_auto_functionalized",
        "remove_noop",
        "fuse_patterns",
        "read_repeats_once",
        "reuse_values",
        "eliminate_dead_code",
    ]
    config.debug.run_eagerly = True
    assert not chosen(config)


def test_all_switchable_passes_are_met_above() -> None:
    assert len({one.option for one in SWITCHED}) == len(SWITCHED) == 8


def test_a_first_call_on_the_cpu_declares_no_operator_of_torch_npu(tmp_path: Path) -> None:
    program = """
import sys
import torch, air_backend
for mode in ("reduce-overhead", "max-autotune"):
    step = torch.compile(lambda x: x * 2, backend="air", options={"mode": mode})
    assert step(torch.ones(2)).tolist() == [2.0, 2.0]
assert "air_fxpasses.npu_ops" not in sys.modules
"""
    done = run_python(program, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.npu("the operators are torch_npu's")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_fusions_of_torch_npus_operators_are_there_without_an_import(mode: str) -> None:
    def step(x1: Tensor, x2: Tensor, gamma: Tensor) -> Any:
        y, _, x = torch.ops.npu.npu_add_rms_norm(x1, x2, gamma)
        return y.to(torch.float32), x

    x = torch.randn(4, 64, device="npu", dtype=torch.float16)
    config = CompilerConfig()
    config.set("mode", mode)
    report = explain(step, x, x, torch.ones(64, device="npu", dtype=torch.float16), compiler_config=config)
    (graph,) = report.data["graphs"]
    notes = [note for one in graph["passes"] if one["name"] == "fuse_patterns" for note in one["notes"]]
    assert any("add_rms_norm_cast" in note for note in notes), graph["passes"]
