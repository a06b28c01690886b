"""The plugin as a user's test run finds it: by its entry point, in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import sys
TORCH_AT_COLLECTION = "torch" in sys.modules

def test_torch_is_imported_by_need():
    assert not TORCH_AT_COLLECTION

def test_ground(air_ground, air_mode):
    import torch
    from air_backend.testing import assert_same_as_eager
    x = torch.randn(4, device=air_ground.device)
    assert_same_as_eager(torch.sin, [x], modes=[air_mode])
"""


@pytest.mark.parametrize(
    ("words", "outcome"),
    [(["--air-ground", "cpu"], "3 passed"), (["--air-ground", "npu"], "1 passed, 2 skipped")],
)
def test_pytest_finds_the_fixtures_of_grounds(tmp_path: Path, words: list[str], outcome: str) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert outcome in ran.stdout, ran.stdout + ran.stderr
