"""Tensors and models split over two processes in the ways people split them, in both modes, equal to one process.

Those of distributed tensors on gloo that CI runs are in `test_ranks`, which starts processes anyway.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from distributed.told import told_equal_in
from torchrun import launched

PROGRAMS = Path(__file__).parent / "programs"
MODES = ("reduce-overhead", "max-autotune")
DTENSOR = {
    "sequence parallel",
    "sequence parallel training",
    "distributed tensors in and out",
    "redistributed tensors",
    "a distributed cache",
    "a mesh as an argument",
    "captures at different times",
}
MORE = {"tensor parallel", "tensor parallel training"}
MODELS = {
    "llama by tensor parallel",
    "llama by tensor and sequence parallel",
    "llama trained by tensor parallel",
    "llama trained by FSDP2",
    "llama trained by DDP",
    "mixtral with experts spread over ranks",
    "mixtral with experts spread over ranks, in one graph",
    "a pipeline trained by GPipe",
    "a pipeline trained by 1F1B",
    "a pipeline without training",
}
CASES = PROGRAMS / "parallel_models.py"


def equal_in(modes: Sequence[str], cases: set[str], done: subprocess.CompletedProcess[str]) -> None:
    told_equal_in(modes, cases, done)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.npu("the collectives are HCCL's")
def test_N22_distributed_tensors_equal_one_process_on_hccl() -> None:
    only = ("sequence parallel training", "distributed tensors in", "mesh")
    cases = {case for case in DTENSOR if any(part in case for part in only)}
    equal_in(MODES[:1], cases, launched(CASES, "npu", "--modes", MODES[0], "--only", *only))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_N22_every_way_of_splitting_equals_one_process_on_gloo(ranks: int) -> None:
    done = launched(CASES, "cpu", "--cases", "dtensor", "models", "experts", "pipeline", ranks=ranks)
    equal_in(MODES, DTENSOR | MORE | MODELS, done)


@pytest.mark.slow
@pytest.mark.npu("the collectives are HCCL's")
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_N22_every_way_of_splitting_equals_one_process_on_hccl(mode: str, ranks: int) -> None:
    tables = ("dtensor", "models", "experts", "pipeline")
    done = launched(CASES, "npu", "--modes", mode, "--cases", *tables, ranks=ranks)
    equal_in([mode], DTENSOR | MORE | MODELS, done)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("device", "place"),
    [
        ("cpu", "capture"),
        ("cpu", "replay"),
        ("cpu", "engine"),
        pytest.param("npu", "capture", marks=pytest.mark.npu("the collectives are HCCL's")),
        pytest.param("npu", "replay", marks=pytest.mark.npu("the collectives are HCCL's")),
        pytest.param("npu", "engine", marks=pytest.mark.npu("the collectives are HCCL's")),
    ],
)
def test_N22_a_rank_that_dies_ends_the_job_with_its_name(device: str, place: str, ranks: int) -> None:
    done = launched(PROGRAMS / "deaths.py", device, "--place", place, ranks=ranks)
    cause = done.stderr.partition("Root Cause")[2]
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert "rank      : 1 " in cause, done.stdout + done.stderr[-4000:]
    assert "exitcode  : 7 " in cause
