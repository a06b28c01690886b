"""The second lane of a run of everything: started, waited for, and its failures told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from house.sessions.running import LANES

ROOT = Path(__file__).resolve().parents[2]
NOXFILE = """
import sys
from pathlib import Path

import nox

sys.path.insert(0, {root!r})
from house.sessions import lanes

lanes.COMMAND = (sys.executable, "-c", {program!r})
lanes.REPORT = Path({folder!r}) / "logs" / "beside.log"
for work in (lanes.ahead, lanes.beside):
    nox.session(venv_backend="none")(work)
"""
OWN = """
import sys

sys.path.insert(0, {root!r})
from house.sessions.running import workers

print("said", workers())
"""
CASES = {
    "that pass": ("print('said', 41 + 1)", 0),
    "that fail": ("print('said', 41 + 1); raise SystemExit(3)", 1),
}


@pytest.mark.parametrize("sessions", [("ahead", "beside"), ("beside",)], ids=" ".join)
@pytest.mark.parametrize(("program", "code"), CASES.values(), ids=CASES)
def test_a_run_ends_as_its_other_lane_does_and_shows_what_it_said(
    tmp_path: Path, program: str, code: int, sessions: tuple[str, ...]
) -> None:
    file = tmp_path / "noxfile.py"
    file.write_text(NOXFILE.format(root=str(ROOT), program=program, folder=str(tmp_path)))
    command = (sys.executable, "-m", "nox", "--no-color", "-f", str(file), "-s", *sessions)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "said 42" in ran.stdout + ran.stderr


def test_the_tests_of_a_session_are_one_process_where_the_other_lane_has_a_processor(tmp_path: Path) -> None:
    program = OWN.format(root=str(ROOT))
    file = tmp_path / "noxfile.py"
    file.write_text(NOXFILE.format(root=str(ROOT), program=program, folder=str(tmp_path)))
    alone = {name: value for name, value in os.environ.items() if name != LANES}
    command = (sys.executable, "-m", "nox", "--no-color", "-f", str(file), "-s")
    for sessions, told in ((("ahead", "beside"), "said ()"), (("beside",), "said ('-n', '2'")):
        ran = subprocess.run([*command, *sessions], capture_output=True, text=True, timeout=120, env=alone)
        assert told in ran.stdout + ran.stderr
