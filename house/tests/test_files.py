"""The file rules refuse what they should and accept what they should."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from house import files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.parametrize("name", ["utils.py", "stream_utils.py", "helper.py", "pass_manager.py", "common.h"])
def test_a_file_named_after_nothing_is_refused(repository: Path, name: str) -> None:
    (repository / name).write_text('"""Docstring."""\n')
    assert files.main(repository) == 1


@pytest.mark.parametrize("name", ["streams.py", "utilisation.py", "commonmark.py"])
def test_a_file_with_a_name_is_accepted(repository: Path, name: str) -> None:
    (repository / name).write_text('"""Docstring."""\n')
    assert files.main(repository) == 0


@pytest.mark.parametrize(("lines", "code"), [(500, 0), (501, 1)])
def test_a_file_over_the_length_limit_is_refused(repository: Path, lines: int, code: int) -> None:
    (repository / "long.py").write_text("x = 1\n" * lines)
    assert files.main(repository) == code


def test_a_path_of_a_machine_is_refused_with_its_place(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/ho" + "me/somebody"
    (repository / "notes.md").write_text(f"first\nlook into {path} for it\n")
    assert files.main(repository) == 1
    assert capsys.readouterr().out.startswith(f"notes.md:2: {path}")


def test_a_placeholder_path_is_accepted(repository: Path) -> None:
    (repository / "notes.md").write_text("build into /path/test\n")
    assert files.main(repository) == 0
