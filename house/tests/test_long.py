"""The rotation of long sessions, and what is said of those that nobody runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from house import long
from house.long import NAMES, OLD, PARTS, Green, command, complaints, due, read, write

AGES = {"a": 3, "b": 300, "c": None}


def green(commit: str) -> Green:
    return Green(commit, "2026-01-01", 7)


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = {"slow air-geir": green("a"), "zoo 1/8": green("b")}
    write(rows, tmp_path / "table.toml")
    assert read(tmp_path / "table.toml") == rows
    assert read(tmp_path / "missing.toml") == {}


def test_what_was_green_longest_ago_is_due_first_and_before_it_what_never_was() -> None:
    rows = {name: green("a") for name in NAMES} | {"zoo 1/8": green("b")}
    rows.pop("fuzz ways")
    order = due(rows, AGES.get)
    assert order[:2] == ["fuzz ways", "zoo 1/8"]
    assert sorted(order) == sorted(NAMES)


def test_old_missing_and_unknown_ones_are_told() -> None:
    rows = {name: green("a") for name in NAMES} | {"zoo 1/8": green("b"), "slow air-geir": green("c")}
    rows.pop("fuzz ways")
    told = complaints(rows, AGES.get)
    assert len(told) == 3
    assert any("fuzz ways: never" in line for line in told)
    assert any(f"zoo 1/8: last green {AGES['b']} commits ago" in line for line in told)
    assert any(
        "slow air-geir: last green at a commit that this history does not have" in line for line in told
    )
    assert OLD == 100


def test_a_session_that_passes_is_put_into_the_table_and_one_that_fails_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Done:
        stdout = ""

        def __init__(self, returncode: int = 0) -> None:
            self.returncode = returncode

    def ran(command: list[str], **_: object) -> Done:
        return Done(int("npu-slow" in command))

    monkeypatch.setattr("house.long.subprocess.run", ran)
    path = tmp_path / "table.toml"
    assert long.run(5, ["slow air-geir", "npu-slow air-geir"], path) == 1
    assert list(read(path)) == ["slow air-geir"]
    assert long.run(0, ["zoo 1/8"], path) == 0
    assert list(read(path)) == ["slow air-geir"]


def test_a_part_that_took_longer_than_there_is_time_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.toml"
    write({"zoo 1/8": Green("a", "2026-11-25", 28)}, path)
    monkeypatch.setattr("house.long.command", lambda part, number: pytest.fail(part.name))
    monkeypatch.setattr(
        "house.long.subprocess.run", lambda *_, **__: SimpleNamespace(stdout="", returncode=0)
    )
    assert long.run(20, ["zoo 1/8"], path) == 0
    assert "no time left for zoo 1/8, which took 28 minutes last time" in capsys.readouterr().out


def test_a_part_is_started_as_its_share_of_a_session() -> None:
    started = {part.name: command(part, "41")[3:] for part in PARTS}
    assert len(started) == len(PARTS)
    assert started["slow air-geir"] == ["-s", "slow", "--", "packages/air-geir/tests"]
    assert started["zoo 8/8"] == ["-s", "zoo", "--", "--dry", "--shard", "7/8"]
    assert started["fuzz ways"] == ["-s", "fuzz", "--", long.PROGRAMS, "410000", "ways"]
    assert started["bench-geir"] == ["-s", "bench-geir"]
