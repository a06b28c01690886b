"""What a file of `cache_compile` is for: options of the trace are part of it, wherever they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

import cached_step
from air_backend import CompilerConfig
from air_backend._compilation import KEEP_MUTATIONS
from air_backend.inference import cache_compile
from air_config import OPTIONS, patch


def folder(home: Path, config: CompilerConfig | None = None) -> Path:
    return cache_compile(cached_step.made().step, config=config, cache_dir=home).folder


def test_an_option_of_the_trace_names_the_file_wherever_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, given = folder(tmp_path), CompilerConfig()
    given.set(KEEP_MUTATIONS, False)
    assigned = folder(tmp_path, given)
    with patch({KEEP_MUTATIONS: False}):
        assert folder(tmp_path) == assigned != plain
    monkeypatch.setenv(OPTIONS[KEEP_MUTATIONS].environment_name, "0")
    theirs = CompilerConfig()
    assert folder(tmp_path, theirs) == assigned
    assert theirs.assigned() == {}, "the configuration of the caller stays as it is"


def test_an_option_that_acts_after_the_trace_does_not_name_the_file(tmp_path: Path) -> None:
    plain = folder(tmp_path)
    with patch({"air.verify": True}):
        assert folder(tmp_path) == plain
