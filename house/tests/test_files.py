"""The file rules refuse what they should and accept what they should."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from house import files
from house.packages import ROOT

TESTS = ("packages/*/tests", "house/tests", "house/site_tests")


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


def imported_tests(text: str) -> Iterator[str]:
    """The test modules that a file imports, inside its functions too."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{name}" for name in names)]
        yield from (name for name in names if name.rpartition(".")[2].startswith("test_"))


def test_no_file_of_the_tests_imports_a_test_module() -> None:
    paths = sorted(path for folder in TESTS for tests in ROOT.glob(folder) for path in tests.rglob("*.py"))
    assert len(paths) > 500
    imports = [
        f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imported_tests(path.read_text())
    ]
    assert not imports, (
        "pytest has loaded it already, under another name: what it registers is registered twice; "
        f"move what is shared into a module of another name: {', '.join(imports)}"
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("import test_x", ["test_x"]),
        ("import os, fuzz.test_x as x", ["fuzz.test_x"]),
        ("from test_x import step", ["test_x"]),
        ("from fuzz.test_x import step", ["fuzz.test_x"]),
        ("from fuzz import test_x", ["fuzz.test_x"]),
        ("from . import test_x", ["test_x"]),
        ("def inside():\n    from .test_x import step", ["test_x"]),
        ("import tests, latest_x\nfrom testing.test import contest_x", []),
    ],
)
def test_an_import_of_a_test_module_is_found(line: str, names: list[str]) -> None:
    assert list(imported_tests(line)) == names
