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
import torch

PROGRAM = Path(__file__).parent / "programs" / "ranks.py"
MODES = ("run_eagerly", "reduce-overhead", "max-autotune")
LOST = "told: .*([Cc]onnection (closed|reset) by peer|[Bb]roken pipe)"  # gloo's words, by what it was doing just then
COLLECTIVES = 11 if torch.__version__ >= "2.12" else 10  # gloo of torch 2.11 has no all_to_all of lists
LIMIT_S = 300


def launched(device: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program of ranks on two of them; torchrun finds a free port by itself."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(PROGRAM), "--device", device, *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    if device == "npu":  # a process tree of its own: this one has one device, these need two
        command = [sys.executable, "-m", "air_sim", "run", "--set", "devices=2", *command]
        kept = {k: v for k, v in variables.items() if k != "LD_LIBRARY_PATH" and not k.startswith("AIR_SIM_")}
        variables = {k: v for k, v in kept.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=variables)


def equal_in(modes: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
    for mode in modes:
        assert f"{COLLECTIVES} collectives {mode} equal" in done.stdout, done.stdout + done.stderr[-4000:]
        assert f"llama {mode} equal" in done.stdout, done.stdout + done.stderr[-4000:]


def ended_with_a_message(done: subprocess.CompletedProcess[str]) -> None:
    """The rank that died is named, and no other rank went on or hangs."""
    assert done.stdout.count("[5.0, 5.0, 5.0, 5.0]") == 4, done.stdout + done.stderr[-4000:]
    assert "went on" not in done.stdout
    assert done.returncode != 0
    cause = done.stderr.partition("Root Cause")[2]
    assert "rank      : 1 " in cause
    assert "exitcode  : 7 " in cause


def test_S25_S27_N22_ranks_equal_one_process_on_gloo_and_a_death_ends_the_job() -> None:
    started = time.monotonic()
    done = launched("cpu")
    equal_in(MODES, done)
    ended_with_a_message(done)
    assert re.search(LOST, done.stdout), done.stdout + done.stderr[-4000:]
    assert time.monotonic() - started < LIMIT_S


@pytest.mark.npu
def test_S25_S27_N22_ranks_equal_one_process_on_hccl_and_a_death_ends_the_job() -> None:
    done = launched("npu", "--modes", *MODES[1:])
    equal_in(MODES[1:], done)
    ended_with_a_message(done)
