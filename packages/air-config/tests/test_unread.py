"""Options that no source names are found, and so are stale entries of the list of unserved ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from air_config import OPTIONS
from air_config.__main__ import main
from air_config._rulebook import NOT_SERVED
from air_config._unread import unread_options


def sources(folder: Path, *paths: str) -> Path:
    names = "\n".join(f"print(settings.{path})" for path in paths)
    (folder / "deep").mkdir(exist_ok=True)
    (folder / "deep" / "executor.py").write_text(names)
    return folder


def served() -> list[str]:
    return [path for path in OPTIONS if path not in NOT_SERVED]


def test_sources_that_name_every_served_option_are_in_order(tmp_path: Path) -> None:
    assert unread_options([sources(tmp_path, *served())]) == {}
    assert main(["unread", str(tmp_path)]) == 0


def test_an_option_that_nobody_names_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = [path for path in served() if path != "air.adaptive_slots"]
    assert list(unread_options([sources(tmp_path, *rest)])) == ["air.adaptive_slots"]
    assert main(["unread", str(tmp_path)]) == 1
    assert "air.adaptive_slots: no file names it" in capsys.readouterr().out


def test_an_unserved_option_that_somebody_serves_is_found(tmp_path: Path) -> None:
    (stale, *_) = NOT_SERVED
    assert list(unread_options([sources(tmp_path, *served(), stale)])) == [stale]


def test_a_part_of_a_longer_word_is_no_name(tmp_path: Path) -> None:
    rest = [path for path in served() if path != "air.sync"]
    folder = sources(tmp_path, *rest)
    (folder / "other.py").write_text("synchronize = async_sync = 1")
    assert list(unread_options([folder])) == ["air.sync"]
