"""A fork runs a program as Python would: with its arguments, its folder, its exit code and all that it prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from house import forks

PROGRAM = """import atexit, os, sys
atexit.register(print, "last words")
if __name__ == "__main__":
    print(sys.argv[1:], os.getcwd(), sys.path[0])
    print("aside", file=sys.stderr)
    os.system("echo of a child")
"""


def one(root: Path, text: str, *arguments: str) -> forks.Ended:
    (root / "one.py").write_text(text)
    (ended,) = forks.ended([forks.command([str(root / "one.py"), *arguments], root)])
    return ended


def test_a_program_has_its_arguments_its_folder_and_its_streams(tmp_path: Path) -> None:
    ended = one(tmp_path, PROGRAM, "a", "b c")
    assert ended.fault is None
    assert f"['a', 'b c'] {tmp_path} {tmp_path}\n" in ended.output
    assert "of a child\n" in ended.output
    assert ended.output.endswith("last words\n")
    assert ended.errors == "aside\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("raise SystemExit('why')", "exit code 1\nwhy"),
        ("1/0", "ZeroDivisionError"),
        ("import os\nos._exit(0)", "its process ended (0)"),
        ("import os\nos.kill(os.getpid(), 9)", "its process ended (9)"),
        ("import atexit, os\natexit.register(os._exit, 0)", "its process ended"),
    ],
)
def test_what_does_not_come_to_its_end_is_a_fault(tmp_path: Path, text: str, said: str) -> None:
    assert said in str(one(tmp_path, text).fault)


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "TIMEOUT_S", 1)
    assert "its process ended (14)" in str(one(tmp_path, "import time\ntime.sleep(60)").fault)


def test_programs_know_nothing_of_each_other_and_are_told_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("import time\ntime.sleep(0.2)\nimport os\nos.kept = 1\nprint('first')")
    (tmp_path / "seen.py").write_text("import os, sys\nassert not hasattr(os, 'kept')\nprint('second')")
    programs = [forks.command([str(tmp_path / name)], tmp_path) for name in ("kept.py", "seen.py")]
    assert [ended.output for ended in forks.ended(programs, at_once=2)] == ["first\n", "second\n"]
    assert [ended.output for ended in forks.ended(programs, at_once=1)] == ["first\n", "second\n"]
    assert not hasattr(os, "kept")


def test_commands_are_modules_and_files_and_one_that_fails_fails_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("import sys\nprint(sys.argv[1])")
    assert forks.main(["good.py x", "good y"], modules=[]) == 0
    assert "x\n> good y\ny\n2 programs, 0 failed" in capsys.readouterr().out
    assert forks.main(["good x", "no_such_module"], modules=[]) == 1
    assert "No module named no_such_module" in capsys.readouterr().out
