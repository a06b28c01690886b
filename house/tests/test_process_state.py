"""A test that leaves torch's settings changed is an error of that test, not a failure of the next one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest
import torch

@pytest.fixture
def without_gradients():
    with torch.no_grad():
        yield

def test_undone(without_gradients):
    torch.set_grad_enabled(False)

def test_left():
    torch.set_grad_enabled(False)

def test_next():
    assert torch.is_grad_enabled()

def test_dtype():
    torch.set_default_dtype(torch.float64)
"""


def test_the_test_that_changed_the_process_is_named(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_states.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
    ran = subprocess.run(
        (*command, "--rootdir", str(tmp_path), str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "4 passed, 2 errors" in ran.stdout, ran.stdout + ran.stderr
    assert "ERROR at teardown of test_left" in ran.stdout
    assert "the test leaves torch changed: grad_mode" in ran.stdout
    assert "the test leaves torch changed: default_dtype" in ran.stdout
