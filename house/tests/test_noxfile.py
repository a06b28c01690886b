"""The sessions of the noxfile fail on a copy of the repository that breaks a rule.

On an untouched one they pass: those are the sessions that run beside this one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", "dist", "__pycache__"
)
IMPORT_TEST = """from __future__ import annotations

import air_streams


def test_it_imports() -> None:
    assert air_streams
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, with one small test of air-streams so that a session is quick."""
    root = tmp_path_factory.mktemp("copy") / "air"
    shutil.copytree(ROOT, root, ignore=LEFT_OUT)
    tests = root / "packages/air-streams/tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_copy_imports.py").write_text(IMPORT_TEST)
    return root


def nox(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["AIR_TORCH_ENV"] = os.environ.get("AIR_TORCH_ENV", str(ROOT / ".nox"))
    command = [sys.executable, "-m", "nox", "--no-color", *arguments]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=600)


@pytest.fixture
def streams_init(copy: Path) -> Iterator[Path]:
    """The facade of air-streams, put back afterwards."""
    path = copy / "packages/air-streams/src/air_streams/__init__.py"
    before = path.read_text()
    yield path
    path.write_text(before)


def test_imports_of_a_higher_layer_and_of_an_undeclared_library_fail_tests_and_layers(
    copy: Path, streams_init: Path
) -> None:
    streams_init.write_text(
        streams_init.read_text() + "\nimport air_backend  # noqa: E402\nimport packaging  # noqa: E402\n"
    )
    tests = nox(copy, "-s", "tests-air-streams", "--", "-x", "-k", "test_it_imports")
    assert tests.returncode != 0
    assert "No module named 'air_backend'" in tests.stdout + tests.stderr
    layers = nox(copy, "-s", "layers")
    assert layers.returncode != 0
    said = layers.stdout + layers.stderr
    assert "air_streams is not allowed to import air_backend" in said
    assert "packaging" in said
    assert re.search(r"faults were found by import-linter, deptry of air-streams(?!,)", said)


def test_a_dependency_that_points_up_fails_layers(copy: Path) -> None:
    path = copy / "packages/air-streams/pyproject.toml"
    before = path.read_text()
    path.write_text(before.replace('"torch>=2.11,<2.14",', '"torch>=2.11,<2.14",\n    "air-backend>=0.1",'))
    ran = nox(copy, "-s", "layers")
    path.write_text(before)
    assert ran.returncode != 0
    assert "air-streams -> air-backend" in ran.stdout + ran.stderr
