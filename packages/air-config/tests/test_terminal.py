"""Commands that print: a reader that has enough ends them in peace, and any letter can be printed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from air_config.terminal import printing

PROGRAM = """
import sys
from air_config.terminal import printing

def command():
    for _ in range(LINES):
        print("\\u00fc line")
    return 3

sys.exit(printing(command))
"""


def run_in_shell(lines: int, reader: str, **env: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", f'set -o pipefail; "$PYTHON" -c "$PROGRAM" | {reader}']
    given = {**os.environ, "PYTHON": sys.executable, "PROGRAM": PROGRAM.replace("LINES", str(lines)), **env}
    return subprocess.run(words, capture_output=True, text=True, env=given, timeout=60)


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_is_no_error(lines: int) -> None:
    ran = run_in_shell(lines, "true", PYTHONUNBUFFERED="1")
    assert (ran.returncode in (0, 3), ran.stderr) == (True, "")


def run_with_output(output: str, lines: int = 1, **env: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("LINES", str(lines))
    given = {**os.environ, "PYTHON": sys.executable, "PROGRAM": program, **env}
    words = ["bash", "-c", f'"$PYTHON" -c "$PROGRAM" {output}']
    return subprocess.run(words, capture_output=True, text=True, env=given, timeout=60)


def test_a_command_without_an_output_runs_and_prints_nothing() -> None:
    ran = run_with_output(">&-")
    assert (ran.returncode, ran.stderr) == (3, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 100_000])
def test_an_output_that_cannot_be_written_is_one_sentence(lines: int, unbuffered: str) -> None:
    ran = run_with_output("> /dev/full", lines, PYTHONUNBUFFERED=unbuffered)
    assert (ran.returncode, ran.stderr) == (1, "the output cannot be written: No space left on device\n")


def test_another_error_of_the_system_is_the_commands_own() -> None:
    def command() -> int:
        raise FileNotFoundError(2, "No such file", "of the command")

    with pytest.raises(FileNotFoundError):
        printing(command)


def test_the_exit_code_is_the_commands_and_letters_are_escaped() -> None:
    ran = run_in_shell(1, "cat", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "\\xfc line\n", "")
