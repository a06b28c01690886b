"""A module that a command line names is found, with its neighbours; what it raises itself is not hidden."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from air_graph.errors import NoSuchModule
from air_graph.imports import module_named


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "air_one.py").write_text("from air_two import VALUE\nLIST = []\n")
    (tmp_path / "air_two.py").write_text("VALUE = 2\n")
    (tmp_path / "air_lost.py").write_text("import air_nowhere\n")
    yield tmp_path
    for name in ("air_one", "air_two", "air_lost"):
        sys.modules.pop(name, None)


def test_a_file_anywhere_is_loaded_once_with_its_neighbours(folder: Path) -> None:
    module = module_named(str(folder / "air_one.py"))
    assert module.VALUE == 2
    assert module_named(str(folder / "air_one.py")).LIST is module.LIST


def test_a_name_is_looked_for_in_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert module_named("air_one").VALUE == 2
    assert module_named("air_two.py").VALUE == 2


def test_what_is_not_there_is_an_error_and_what_the_module_lacks_is_its_own() -> None:
    with pytest.raises(NoSuchModule, match=r"there is no file nowhere\.py"):
        module_named("nowhere.py")
    with pytest.raises(NoSuchModule, match=r"no module 'air_nowhere'(?s:.*)a file: air_nowhere\.py"):
        module_named("air_nowhere")


@pytest.mark.parametrize("name", ["air_lost", "air_lost.py"])
def test_a_module_that_is_missing_inside_is_not_said_to_be_the_one_that_was_named(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ModuleNotFoundError, match="No module named 'air_nowhere'"):
        module_named(name)
