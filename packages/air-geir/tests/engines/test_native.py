"""The binding in C++ is compiled once, however many need it at the same time."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from air_geir.engines import native
from air_geir.errors import EngineUnavailableError

HALF = native._Half("session", ("session.cpp",), "nothing", ())


def test_who_comes_while_it_is_compiled_waits_and_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "folder" / "session.so"
    compiled: list[str] = []

    def slowly(command: Sequence[str], half: native._Half) -> None:
        compiled.append(half.name)
        time.sleep(0.3)
        Path(command[-1]).write_text("a library")

    monkeypatch.setattr(native, "missing", lambda: None)
    monkeypatch.setattr(native, "compiler", lambda: "g++")
    monkeypatch.setattr(native, "_run", slowly)
    threads = [threading.Thread(target=native._build, args=(HALF, target)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["session"]
    assert target.read_text() == "a library"
    assert list(target.parent.iterdir()) == [target]


def test_a_lock_that_another_user_could_hold_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr(native, "missing", lambda: None)
    monkeypatch.setattr(native, "compiler", lambda: "g++")
    monkeypatch.setattr(native, "_run", lambda command, half: Path(command[-1]).write_text("a library"))
    builder = threading.Thread(target=native._build, args=(HALF, tmp_path / "session.so"), daemon=True)
    builder.start()
    builder.join(30)
    os.close(held)
    assert not builder.is_alive()
    assert (tmp_path / "session.so").read_text() == "a library"


def test_after_a_compiler_that_failed_the_next_one_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter((True, False))

    def refuses_once(command: Sequence[str], half: native._Half) -> None:
        if next(refusals):
            raise EngineUnavailableError("it did not compile", advice="")
        Path(command[-1]).write_text("a library")

    monkeypatch.setattr(native, "missing", lambda: None)
    monkeypatch.setattr(native, "compiler", lambda: "g++")
    monkeypatch.setattr(native, "_run", refuses_once)
    with pytest.raises(EngineUnavailableError, match="did not compile"):
        native._build(HALF, tmp_path / "session.so")
    native._build(HALF, tmp_path / "session.so")
    assert (tmp_path / "session.so").read_text() == "a library"
