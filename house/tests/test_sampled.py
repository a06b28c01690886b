"""A sweep marked `sampled(n)`: which of its cases a run that wants nothing slow takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SWEEP = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", ["cpu", pytest.param("npu", marks=pytest.mark.npu)])
@pytest.mark.parametrize("case", [*range(7), pytest.param("long", marks=pytest.mark.slow)])
def test_sweep(case, device):
    pass

@pytest.mark.sampled(3)
@pytest.mark.npu
def test_alone():
    pass
"""


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("not slow and not npu", ["0-cpu", "3-cpu", "6-cpu"]),
        ("not slow and npu", ["1-npu", "4-npu", "alone"]),
        ("slow and not npu", ["1-cpu", "2-cpu", "4-cpu", "5-cpu", "long-cpu"]),
    ],
)
def test_each_ground_takes_other_cases_and_the_rest_is_slow(
    tmp_path: Path, wanted: str, taken: list[str]
) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_sweep.py").write_text(SWEEP)
    quiet = ("-q", "--collect-only", "-p", "no:cacheprovider", "-W", "ignore")
    command = (
        sys.executable,
        "-m",
        "pytest",
        *quiet,
        "-m",
        wanted,
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    )
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    names = [line.partition("::test_")[2] for line in ran.stdout.splitlines() if "::" in line]
    assert [name.removeprefix("sweep[").removesuffix("]") for name in names] == taken, ran.stdout + ran.stderr
