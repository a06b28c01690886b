"""Commands that print: a reader that has enough ends them in peace, and any letter can be printed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


def test_the_exit_code_is_the_commands_and_letters_are_escaped() -> None:
    ran = run_in_shell(1, "cat", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "\\xfc line\n", "")
