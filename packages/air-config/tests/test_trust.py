"""May code be loaded from a path: by owner and mode of every part, and by what was opened, not by its name."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from air_config import trust
from air_config.trust import Untrusted, open_trusted, why_untrusted

STRANGER = 54321


def read(path: Path) -> str:
    with os.fdopen(open_trusted(path)) as file:
        return file.read()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a file in a folder."""
    (tmp_path / "home" / "cache").mkdir(parents=True, mode=0o755)
    for folder in (tmp_path / "home", tmp_path / "home" / "cache"):
        folder.chmod(0o755)
    (tmp_path / "home" / "cache" / "code").write_text("mine")
    (tmp_path / "home" / "cache" / "code").chmod(0o644)
    return tmp_path / "home"


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Inode to owner: files of other users, without being root."""
    given: dict[int, int] = {}

    def altered(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def asked(*args: Any, **kwargs: Any) -> os.stat_result:
            found = real(*args, **kwargs)
            if found.st_ino not in given:
                return found
            values = list(found)
            values[4] = given[found.st_ino]
            return os.stat_result(values)

        return asked

    monkeypatch.setattr(os, "stat", altered(os.stat))
    monkeypatch.setattr(os, "fstat", altered(os.fstat))
    return given


def test_what_this_user_alone_can_write_is_trusted(home: Path) -> None:
    assert read(home / "cache" / "code") == "mine"
    assert why_untrusted(home) is None
    assert why_untrusted(home / "cache" / ".." / "cache" / "code") is None


@pytest.mark.parametrize("part", [".", "cache", "cache/code"])
@pytest.mark.parametrize("mode", [stat.S_IWOTH, stat.S_IWGRP])
def test_a_part_that_others_may_write_is_named(
    home: Path, part: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_is_private", lambda group: False)
    place = home / part
    place.chmod(place.stat().st_mode | mode)
    with pytest.raises(Untrusted, match="others may write") as refused:
        read(home / "cache" / "code")
    assert refused.value.part == str(place.resolve())


@pytest.mark.parametrize("part", [".", "cache", "cache/code"])
def test_a_part_of_another_user_is_named_with_its_owner(
    home: Path, part: str, owners: dict[int, int]
) -> None:
    owners[(home / part).stat().st_ino] = STRANGER
    refusal = why_untrusted(home / "cache" / "code")
    assert refusal is not None
    assert refusal.part == str((home / part).resolve())
    assert str(STRANGER) in str(refusal)


def test_what_root_owns_is_trusted(home: Path, owners: dict[int, int]) -> None:
    owners[home.stat().st_ino] = 0
    assert why_untrusted(home / "cache" / "code") is None


def test_a_sticky_folder_may_be_written_by_all_and_its_entries_may_not(home: Path) -> None:
    home.chmod(0o1777)
    assert read(home / "cache" / "code") == "mine"
    (home / "cache" / "code").chmod(0o1666)
    assert why_untrusted(home / "cache" / "code") is not None, "of a file the bit says nothing"


def test_a_link_is_followed_where_its_owner_and_its_target_are_trusted(
    home: Path, owners: dict[int, int]
) -> None:
    relative, absolute = home / "relative", home / "absolute"
    relative.symlink_to(Path("..") / "home" / "cache")
    absolute.symlink_to(home / "relative" / "code")
    assert read(relative / "code") == "mine"
    assert read(absolute) == "mine"
    owners[relative.lstat().st_ino] = STRANGER
    refusal = why_untrusted(absolute)
    assert refusal is not None
    assert refusal.part == str(relative)


def test_a_link_to_a_place_that_others_may_write_does_not_hide_it(home: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "code").write_text("theirs")
    (home / "link").symlink_to(shared / "code")
    refusal = why_untrusted(home / "link")
    assert refusal is not None
    assert refusal.part == str(shared)


def test_links_in_a_circle_end(home: Path) -> None:
    (home / "one").symlink_to("two")
    (home / "two").symlink_to("one")
    with pytest.raises(Untrusted, match="too many symbolic links"):
        read(home / "one")


def test_what_is_put_in_place_after_the_judgement_is_not_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is swapped at the last moment, and so is a folder for a link: what was judged is what is read."""
    (home / "evil").mkdir()
    (home / "evil" / "code").write_text("theirs")
    real = trust._judge

    def swapping(whole: str, part: str, found: os.stat_result) -> None:
        real(whole, part, found)
        if part == str(home / "cache"):
            (home / "cache").rename(home / "gone")
            (home / "cache").symlink_to(home / "evil")
        if part == str(home / "cache" / "code"):
            (home / "gone" / "code").unlink()
            (home / "gone" / "code").write_text("theirs")

    monkeypatch.setattr(trust, "_judge", swapping)
    assert read(home / "cache" / "code") == "mine"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_code_is_read_from_regular_files_alone(home: Path, kind: str) -> None:
    place = home / "cache" / kind
    place.mkdir() if kind == "folder" else os.mkfifo(place)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Untrusted, match="no regular file"):
        open_trusted(place)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_is_an_ordinary_error_and_leaves_no_descriptor(home: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        open_trusted(home / "nothing")
    with pytest.raises(NotADirectoryError):
        open_trusted(home / "cache" / "code" / "below")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_on_the_way_need_not_be_listable(home: Path) -> None:
    (home / "cache").chmod(0o111)
    assert read(home / "cache" / "code") == "mine"
    (home / "cache").chmod(0o755)


def test_a_name_that_is_no_text_is_judged_too(home: Path) -> None:
    strange = home / os.fsdecode(b"caf\xe9")
    strange.write_text("mine")
    strange.chmod(0o644)
    assert read(strange) == "mine"


def test_the_private_group_of_the_user_may_write(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = home / "cache"
    place.chmod(0o775)
    user = pwd.getpwuid(os.geteuid())

    def group(number: int, *members: str) -> Any:
        return grp.struct_group((user.pw_name, "x", number, list(members)))

    monkeypatch.setattr(grp, "getgrgid", lambda number: group(number))
    expected = place.stat().st_gid == user.pw_gid
    assert (why_untrusted(place) is None) == expected
    monkeypatch.setattr(grp, "getgrgid", lambda number: group(number, "another"))
    assert why_untrusted(place) is not None
