"""What a cached function reads of its process is compared, and values of the environment are not written."""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend.inference import cache_compile

X = torch.ones(3)
LOWER = "flag_of_a_test"
SECRET = "TOKEN_OF_A_TEST"


def asks(x: Tensor) -> Tensor:
    return x * 2 if "flag_of_a_test" in os.environ else x


def asks_by_a_constant(x: Tensor) -> Tensor:
    return x * 2 if LOWER in os.environ else x


def asks_for_none(x: Tensor) -> Tensor:
    return x * 2 if "flag_of_a_test" not in os.environ else x


def reads(x: Tensor) -> Tensor:
    value = os.environ.get(
        "flag_of_a_test",  # noqa: SIM112  # as a program may write it
        "0",
    )
    return x * 2 if value == "1" else x


@pytest.mark.parametrize("program", [asks, asks_by_a_constant, asks_for_none, reads])
@pytest.mark.parametrize("is_new", [False, True], ids=["in one process", "in another process"])
def test_W28_a_variable_in_small_letters_is_compared(
    program: Any, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = cache_compile(program, cache_dir=tmp_path)
    for value, count in ((None, 1), (None, 1), ("1", 2), (None, 2)):
        monkeypatch.delenv(LOWER, raising=False)
        if value is not None:
            monkeypatch.setenv(LOWER, value)
        if is_new:
            torch._dynamo.reset()
            function = cache_compile(program, cache_dir=tmp_path)
        torch.testing.assert_close(function(X), program(X))
        assert len(list(function.folder.glob("compiled_module*"))) == count


def limited(x: Tensor) -> Tensor:
    return x * sys.getrecursionlimit()


def test_W28_the_recursion_limit_is_compared(tmp_path: Path) -> None:
    before = sys.getrecursionlimit()
    try:
        for limit in (before, before + 1000):
            sys.setrecursionlimit(limit)
            torch.testing.assert_close(cache_compile(limited, cache_dir=tmp_path)(X), X * limit)
            torch._dynamo.reset()
    finally:
        sys.setrecursionlimit(before)


def uses_a_secret(x: Tensor) -> Tensor:
    return x * 2 if os.environ[SECRET].startswith("open") else x


def test_values_of_the_environment_go_into_no_file_and_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    word = "".join(reversed("emases"))  # torch writes the text of this module into the file
    with caplog.at_level(logging.DEBUG, "air_backend"):
        for value, times in ((f"open {word} 1", 2), (f"open {word} 2", 2), ("shut", 1)):
            monkeypatch.setenv(SECRET, value)
            torch._dynamo.reset()
            function = cache_compile(uses_a_secret, cache_dir=tmp_path)
            assert torch.equal(function(X), X * times)
    assert f"b'{SECRET}'] is not what it was" in caplog.text
    assert word not in caplog.text
    assert "name a file" not in caplog.text, "that is advice for readable_cache"
    for path in function.folder.glob("compiled_module*"):
        with zipfile.ZipFile(path) as file:
            assert not any(word.encode() in file.read(name) for name in file.namelist())


def looks_for_a_module(x: Tensor) -> Tensor:
    return x * 2 if "air_test_module" in sys.modules else x


def test_W28_of_all_modules_a_question_is_about_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, times, count in (("other", 1, 1), ("another", 1, 1), ("air_test_module", 2, 2)):
        monkeypatch.setitem(sys.modules, name, sys)
        torch._dynamo.reset()
        function = cache_compile(looks_for_a_module, cache_dir=tmp_path)
        assert torch.equal(function(X), X * times)
        assert len(list(function.folder.glob("compiled_module*"))) == count
    assert len(caplog.text) < 1000


LONG = ["a" * 50] * 100
TABLE = {text + str(at): at for at, text in enumerate(LONG)}


def counts(x: Tensor) -> Tensor:
    return x * len(TABLE)


def test_a_warning_does_not_repeat_a_long_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache_compile(counts, cache_dir=tmp_path)(X)
    monkeypatch.setitem(TABLE, "b", 1)
    torch._dynamo.reset()
    assert torch.equal(cache_compile(counts, cache_dir=tmp_path)(X), X * 101)
    assert "is not what it was" in caplog.text
    assert len(caplog.text) < 1000
