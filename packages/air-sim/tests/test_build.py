"""Where the compiled libraries lie: loaded only from where nobody else can have put them, and errors say where."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from air_sim import _build, _switches, _toolkit
from air_sim.errors import UnusableCache

pytestmark = pytest.mark.npu


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test, in which "compiling" makes empty files."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("AIR_SIM_CACHE", str(folder))

    def compiled(install: Any, place: Path, jobs: int) -> None:
        for path in _build.Libraries(place, install).preload:
            path.touch(mode=0o755)

    monkeypatch.setattr(_build, "_compile_all", compiled)
    return folder


def test_libraries_are_built_once_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _build.build()
    monkeypatch.setattr(_build, "_compile_all", None)
    assert _build.build() == made
    assert not list(cache.glob("partial-*"))


@pytest.mark.parametrize("hole", ["library", "folder", "cache"])
def test_libraries_that_somebody_else_may_have_put_there_are_not_loaded(hole: str, cache: Path) -> None:
    made = _build.build()
    places = {"library": made.preload[0], "folder": made.folder, "cache": cache}
    places[hole].chmod(0o777)
    with pytest.raises(UnusableCache, match=r"(?s)others may write to it.*AIR_SIM_CACHE"):
        _build.build()


def test_a_file_for_the_folder_is_said_with_the_variable(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(UnusableCache, match="AIR_SIM_CACHE"):
        _build.build()


def test_a_full_disk_is_said_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(_build, "_compile_all", full)
        with pytest.raises(UnusableCache, match="No space left"):
            _build.build()
    assert [path.name for path in cache.iterdir()] == ["lock"]
    made = _build.build()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        with pytest.raises(UnusableCache, match="No space left"):
            _toolkit.make_toolkit(made, _switches.Switches())
    assert [path for path in made.folder.rglob("bin/*")] == []
