"""The second lane of a run of everything: started, waited for, and its failures told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
