"""`air new-pass` and `air new-converter` write files that work as they are, and refuse what they cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from air_backend.cli import main
from forked import run_pytest


def test_what_is_written_works_and_its_tests_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, name in (("new-pass", "fold_scales"), ("new-converter", "scaled")):
        assert main([command, name, "--folder", str(tmp_path)]) == 0
        assert f"test_{name}.py" in capsys.readouterr().out
    ran = run_pytest(str(tmp_path), folder=tmp_path)
    assert "6 passed" in ran.stdout, ran.stdout + ran.stderr
    format_check = [sys.executable, "-m", "compileall", "-q", str(tmp_path)]
    assert subprocess.run(format_check, timeout=60).returncode == 0


def test_where_pytest_is_not_installed_the_advice_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("air_backend.cli._new.find_spec", lambda name: None)
    assert main(["new-pass", "fold_scales", "--folder", str(tmp_path)]) == 0
    assert "try it: pip install pytest, then pytest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new-pass", "Fold-Scales"], "is no name in snake_case"),
        (["new-pass", "json"], "is the name of a module of Python"),
        (["new-pass", "torch"], "is the name of a module that is installed"),
        (["new-converter", "mine", "--folder", "nowhere"], "there is no folder nowhere"),
        (["new-pass", "there"], "there.py: already there; --force replaces"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.py").write_text("kept")
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert Path("there.py").read_text() == "kept"
    assert main(["new-pass", "there", "--force"]) == 0
    assert "class There(Pass)" in Path("there.py").read_text()


def test_the_command_that_is_proposed_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("of two words").mkdir()
    assert main(["new-pass", "mine", "--folder", "of two words"]) == 0
    assert "try it: pytest 'of two words/test_mine.py'" in capsys.readouterr().out
