"""Compiled collectives between two processes of torchrun, by gloo on CPU tensors and by HCCL on air-sim."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from distributed.told import told_equal_in
from torchrun import launched

PROGRAM = Path(__file__).parent / "programs" / "ranks.py"
MODES = ("run_eagerly", "reduce-overhead", "max-autotune")
LOST = "told: .*([Cc]onnection (closed|reset) by peer|[Bb]roken pipe)"  # gloo's words, by what it was doing just then
COLLECTIVES = 11 if torch.__version__ >= "2.12" else 10  # gloo of torch 2.11 has no all_to_all of lists
IN_CI = {"distributed tensors in and out", "a mesh as an argument", "captures at different times"}
LIMIT_S = 300


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


@pytest.mark.parametrize("modes", [MODES[1:], pytest.param(MODES[:1], marks=pytest.mark.slow)])
def test_S25_S27_N22_ranks_and_distributed_tensors_equal_one_process_on_gloo_and_a_death_ends_the_job(
    modes: Sequence[str],
) -> None:
    started = time.monotonic()
    done = launched(PROGRAM, "cpu", "--only", *sorted(IN_CI), "--modes", *modes, limit_s=LIMIT_S)
    told_equal_in(MODES[1:], IN_CI, done)
    equal_in(modes, done)
    ended_with_a_message(done)
    assert re.search(LOST, done.stdout), done.stdout + done.stderr[-4000:]
    assert time.monotonic() - started < LIMIT_S


def waits_for_what_is_under_way(device: str) -> None:
    done = launched(PROGRAM.with_name("in_flight.py"), device, limit_s=LIMIT_S)
    for mode in MODES[1:]:
        assert f"{mode}: 12 of 12 calls are right" in done.stdout, done.stdout + done.stderr[-4000:]


def test_N22_collectives_under_way_where_a_graph_begins_or_ends_are_waited_for_on_gloo() -> None:
    waits_for_what_is_under_way("cpu")


@pytest.mark.npu("the collectives are HCCL's")
def test_N22_collectives_under_way_where_a_graph_begins_or_ends_are_waited_for_on_hccl() -> None:
    waits_for_what_is_under_way("npu")


@pytest.mark.npu("the collectives are HCCL's")
def test_N22_a_graph_takes_its_turn_among_collectives_that_the_program_starts_itself() -> None:
    done = launched(PROGRAM.with_name("in_turn.py"), "npu", limit_s=LIMIT_S)
    for mode in MODES[1:]:
        assert f"{mode}: 40 of 40 calls are right" in done.stdout, done.stdout + done.stderr[-4000:]


def proves_alone(device: str) -> None:
    done = launched(PROGRAM.with_name("proven.py"), device, limit_s=LIMIT_S)
    for mode in MODES[1:]:
        assert f"{mode}: 3 of 3 calls are right" in done.stdout, done.stdout + done.stderr[-4000:]


def test_N14_a_rank_proves_its_passes_without_a_word_to_the_others_on_gloo() -> None:
    proves_alone("cpu")


@pytest.mark.npu("the collectives are HCCL's")
def test_N14_a_rank_proves_its_passes_without_a_word_to_the_others_on_hccl() -> None:
    proves_alone("npu")


def follows_groups_made_anew(device: str) -> None:
    done = launched(PROGRAM.with_name("remade.py"), device, limit_s=LIMIT_S)
    for mode in MODES[1:]:
        assert f"{mode}: 9 of 9 calls are right" in done.stdout, done.stdout + done.stderr[-4000:]


def test_N22_a_graph_follows_its_process_groups_that_are_destroyed_and_made_anew_on_gloo() -> None:
    follows_groups_made_anew("cpu")


@pytest.mark.npu("the communicators are HCCL's")
def test_N22_a_graph_follows_its_process_groups_that_are_destroyed_and_made_anew() -> None:
    follows_groups_made_anew("npu")


@pytest.mark.npu("the collectives are HCCL's")
def test_S25_S27_N22_ranks_equal_one_process_on_hccl_and_a_death_ends_the_job() -> None:
    done = launched(PROGRAM, "npu", "--modes", *MODES[1:], limit_s=LIMIT_S)
    equal_in(MODES[1:], done)
    ended_with_a_message(done)
