"""Directories and files are looked at when they are assigned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from air_config import MissingPath, UnusablePath, WrongType, WrongValue
from air_config._path_kinds import directory, file


def test_a_directory_is_kept_as_text(tmp_path: Path) -> None:
    assert directory().take("p", tmp_path) == str(tmp_path)
    assert directory().take("p", str(tmp_path)) == str(tmp_path)


def test_a_directory_that_does_not_exist_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingPath, match="create it first"):
        directory().take("p", tmp_path / "no")


def test_a_file_is_no_directory_and_a_directory_no_file(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text("{}")
    with pytest.raises(UnusablePath, match="not a directory"):
        directory().take("p", tmp_path / "f.json")
    with pytest.raises(UnusablePath, match="not a file"):
        file().take("p", tmp_path)


def test_a_directory_without_write_permission_is_refused_where_it_must_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    if os.access(closed, os.W_OK):  # the superuser may write anywhere
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and not (mode & os.W_OK))
    with pytest.raises(UnusablePath, match="may not read and write"):
        directory(writable=True).take("p", closed)
    assert directory().take("p", closed) == str(closed)


def test_a_file_without_read_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.write_text("")
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UnusablePath, match="may not read"):
        file().take("p", closed)


@pytest.mark.parametrize("value", [None, 3, b"/", ["/"], True])
def test_what_is_no_path_has_the_wrong_type(value: Any) -> None:
    for kind in (directory(), file()):
        with pytest.raises(WrongType):
            kind.take("p", value)


def test_an_empty_path_or_one_with_a_nul_is_a_wrong_value() -> None:
    for value in ("", "a\0b"):
        with pytest.raises(WrongValue):
            directory().take("p", value)


def test_a_directory_that_is_made_when_needed_must_be_makeable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = directory(may_be_made=True)
    assert kind.take("p", tmp_path / "a" / "b") == str(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusablePath, match="file' is not a directory"):
        kind.take("p", tmp_path / "file" / "below")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UnusablePath, match="may not read and write"):
        kind.take("p", tmp_path / "a")


def test_a_file_must_have_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(WrongValue, match=r"must end with \.json"):
        file(".json").take("p", tmp_path / "a.txt")
