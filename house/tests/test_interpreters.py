"""Sessions run on the interpreter that was built with its optimisations."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from house import interpreters


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A program that is asked like an interpreter, and gives the answer it was made with."""
    return tmp_path / "fake-python"


def written(file: Path, text: str) -> str:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_the_interpreter_that_is_optimised_is_taken(fake: Path) -> None:
    good = written(fake, "echo /some/python3.11")
    plain = written(fake.with_name("plain"), "exit 1")
    assert interpreters.first_optimised(plain, [plain, good]) == "/some/python3.11"


def test_the_own_one_is_kept_where_no_other_is_better(fake: Path) -> None:
    plain = written(fake, "exit 1")
    assert interpreters.first_optimised(plain, [plain]) == plain


def test_an_environment_is_seen_through(tmp_path: Path) -> None:
    """Two checkouts share their libraries, whatever environment nox itself is in."""
    below = interpreters.optimised(sys.executable)
    if below is None:
        pytest.skip("this Python was built without its optimisations, and no other one is here")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    assert interpreters.optimised(str(tmp_path / "bin/python")) == below
    assert os.path.samefile(os.path.realpath(sys.executable), os.path.realpath(below))


def test_a_choice_that_was_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(interpreters.CHOSEN, "/some/python")
    assert interpreters.interpreter() == "/some/python"


def test_a_choice_is_handed_to_what_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(interpreters.CHOSEN, raising=False)
    chosen = interpreters.interpreter()
    assert os.environ[interpreters.CHOSEN] == chosen
    version = subprocess.run(
        [chosen, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
    )
    assert version.stdout.split() == list(map(str, sys.version_info[:2]))
