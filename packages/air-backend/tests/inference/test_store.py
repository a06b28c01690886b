"""What a file of `cache_compile` holds can be read by people, and is not run by that."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import air_backend
import cached_step
from air_backend.errors import NotACache
from air_backend.inference import readable_cache
from air_backend.inference._store import global_values


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    function: Any = cached_step.cached(
        cached_step.made(), str(tmp_path_factory.mktemp("cache")), "max-autotune", True
    )
    function(cached_step.inputs())
    return Path(function.folder) / "compiled_module"


def test_A52_G19_a_file_shows_its_function_options_versions_and_graph(
    written: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = readable_cache(written, file=tmp_path / "readable.txt")
    assert capsys.readouterr().out == text + "\n"
    assert (tmp_path / "readable.txt").read_text() == text
    for part in (
        '"cached_step.Step.step"',
        '"max-autotune"',
        f'"{air_backend.__version__}"',
        "aten.relu",
        "copy_",
    ):
        assert part in text, part
    assert "cached_step.py" in text, "the user's lines stand above the operators"


def test_A52_G19_nothing_is_printed_that_is_not_asked_for(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readable_cache(str(written), print_output=False)
    assert capsys.readouterr().out == ""


def test_A52_G19_reading_for_people_runs_nothing(written: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(written) as archive, zipfile.ZipFile(tmp_path / "other", "w") as other:
        for name in ("about.json", "graph.txt"):
            other.writestr(name, archive.read(name))
        other.writestr("function", b"no pickle at all")
    assert readable_cache(tmp_path / "other", print_output=False)


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_a_file_of_something_else_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NotACache, match=r"file cannot be read as a file of cache_compile"):
        readable_cache(path)


@pytest.mark.parametrize(
    "at",
    [lambda data: data.find(b"PK\x01\x02") + 10, lambda data: 41],
    ids=["the way it is packed", "what is packed"],
)
def test_A52_G19_a_damaged_file_is_refused(at: Callable[[bytes], int], written: Path, tmp_path: Path) -> None:
    data = bytearray(written.read_bytes())
    data[at(bytes(data))] ^= 0xFF
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(NotACache, match=r"file cannot be read as a file of cache_compile"):
        readable_cache(path)


def test_global_values_are_found_by_the_names_that_dynamo_gives_them() -> None:
    names = (
        "G['SCALE']",
        "G['__import_cached_step'].SCALE",
        "G['torch']",
        "G['missing']",
        "G['json'].__name__",
        "G['__builtins_dict__1']['len']",
    )
    assert global_values(names, (), cached_step.main) == {
        "G['SCALE']": "2",
        "G['__import_cached_step'].SCALE": "2",
        "G['torch']": "torch",
        "G['json'].__name__": "'json'",
    }
