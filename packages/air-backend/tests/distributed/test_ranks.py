"""Compiled collectives between two processes of torchrun, by gloo on CPU tensors and by HCCL on air-sim."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MODES = ("run_eagerly", "reduce-overhead", "max-autotune")
LIMIT_S = 300


def launched(name: str, device: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of this folder on two ranks; torchrun finds a free port by itself."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(PROGRAMS / f"{name}.py"), "--device", device, *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    if device == "npu":  # a process tree of its own: this one has one device, these need two
        command = [sys.executable, "-m", "air_sim", "run", "--set", "devices=2", *command]
        kept = {k: v for k, v in variables.items() if k != "LD_LIBRARY_PATH" and not k.startswith("AIR_SIM_")}
        variables = {k: v for k, v in kept.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=variables)


def equal_in(modes: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    for mode in modes:
        assert f"11 collectives {mode} equal" in done.stdout
        assert f"llama {mode} equal" in done.stdout


def ended_with_a_message(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stdout.count("[5.0, 5.0, 5.0, 5.0]") == 4, done.stdout + done.stderr[-4000:]
    assert "went on" not in done.stdout
    assert done.returncode != 0
    cause = done.stderr.partition("Root Cause")[2]
    assert "rank      : 1 " in cause
    assert "exitcode  : 7 " in cause


def test_S25_S27_N22_collectives_and_a_split_llama_equal_one_process_on_gloo() -> None:
    equal_in(MODES, launched("ranks", "cpu"))


def test_N22_a_rank_that_dies_ends_the_job_with_its_name_and_no_hang() -> None:
    started = time.monotonic()
    done = launched("dying", "cpu")
    ended_with_a_message(done)
    assert re.search("RuntimeError: .*[Cc]onnection (closed|reset) by peer", done.stderr)
    assert time.monotonic() - started < LIMIT_S


@pytest.mark.npu
def test_S25_S27_N22_collectives_and_a_split_llama_equal_one_process_on_hccl() -> None:
    equal_in(MODES[1:], launched("ranks", "npu", "--modes", *MODES[1:]))


@pytest.mark.npu
@pytest.mark.slow  # a minute of processor time
def test_N22_a_rank_that_dies_ends_the_job_on_hccl() -> None:
    ended_with_a_message(launched("dying", "npu"))
