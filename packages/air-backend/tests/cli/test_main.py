"""The `air` command, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """
import torch

def build():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    return model, (torch.randn(2, 4),)

def wrong():
    return 7
"""


def air(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "air_backend.cli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=cwd, env={**os.environ, **env}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_help_lists_the_commands_without_importing_torch() -> None:
    probe = (
        "import sys; from air_backend.cli import main\n"
        "try: main(['--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for name in ("demo", "doctor", "explain", "run"):
        assert name in ran.stdout


def test_demo_compares_every_mode_with_eager_and_prints_a_table() -> None:
    ran = air("demo")
    assert ran.returncode == 0, ran.stderr
    for mode in ("eager", "run_eagerly", "reduce-overhead", "max-autotune"):
        assert f"\n{mode} " in ran.stdout
    assert "every mode computes what eager computes" in ran.stdout


def test_demo_as_json_has_captures_and_removed_copies() -> None:
    report = json.loads(air("demo", "--json").stdout)
    rows = {row["mode"]: row for row in report["rows"]}
    assert rows["reduce-overhead"]["captures"] == 2
    assert rows["reduce-overhead"]["copies_removed"] == 16
    assert all(row["difference"] <= 1e-4 for row in rows.values())


def test_doctor_says_what_is_there_and_what_to_do_about_the_rest() -> None:
    ran = air("doctor", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(ran.stdout)}
    assert findings["torch"]["state"] == "ok"
    assert findings["compile"]["state"] == "ok", findings["compile"]
    for finding in findings.values():
        assert finding["state"] == "ok" or finding["advice"]


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_explain_reports_a_function_of_a_file(folder: Path, form: str) -> None:
    words = {"text": [], "json": ["--json"], "html": ["--html", "report.html"]}[form]
    ran = air("explain", "model.py:build", "--mode", "reduce-overhead", *words, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    shown = (folder / "report.html").read_text() if form == "html" else ran.stdout
    assert "reinplace_inplaceable" in shown


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("model.py", "is not MODULE:FUNC"),
        ("missing.py:build", "there is no file missing.py"),
        ("model.py:nothing", "has no function 'nothing'"),
        ("model.py:wrong", "must give (function, args)"),
    ],
)
def test_explain_says_what_is_wrong_with_its_target(folder: Path, target: str, message: str) -> None:
    ran = air("explain", target, cwd=folder)
    assert ran.returncode != 0
    assert message in ran.stderr


def test_run_gives_the_script_air_under_the_name_torchair_and_its_arguments(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import sys, torchair\nprint(torchair.__name__, sys.argv[1:], __name__)\n"
    )
    ran = air("run", "script.py", "--sim", "-x", cwd=folder)
    assert ran.stdout.strip() == "air_backend ['--sim', '-x'] __main__"


def test_run_of_a_missing_script_is_an_error(folder: Path) -> None:
    ran = air("run", "nothing.py", cwd=folder)
    assert ran.returncode == 2
    assert "there is no script nothing.py" in ran.stderr


def test_sim_without_torch_npu_says_what_to_install(folder: Path) -> None:
    probe = (
        "import importlib.util, sys; real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'torch_npu' else real(name, *a)\n"
        "from air_backend.cli import main; sys.exit(main(['demo', '--sim']))"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "install it: pip install" in ran.stderr
