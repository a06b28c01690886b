"""The programs of the documents, complete and unchanged, run by `air run` over the real torch_npu.

Each compares its result with eager at its end and prints which torchair it used.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def ran(name: str, *arguments: str, cwd: Path | None = None) -> str:
    command = [sys.executable, "-m", "air_backend.cli", "run", str(PROGRAMS / f"{name}.py"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.rstrip().endswith("equal air_backend")
    return result.stderr


@pytest.mark.npu
def test_S05_the_first_program_of_the_run_eagerly_document() -> None:
    ran("run_eagerly_max_autotune")


@pytest.mark.npu
def test_S05_S06_the_second_program_of_the_run_eagerly_document() -> None:
    ran("run_eagerly_reduce_overhead")


@pytest.mark.npu
def test_S14_S15_the_program_of_the_fx_pass_document() -> None:
    ran("fx_passes")


@pytest.mark.npu
def test_S19_S20_S21_S22_the_program_of_the_multi_stream_document() -> None:
    assert "StreamRaceWarning" not in ran("multi_stream")
