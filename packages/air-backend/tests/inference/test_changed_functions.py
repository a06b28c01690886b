"""A function of `cache_compile` that gets other code or other defaults, and one that reads the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend.inference import cache_compile

X = torch.randn(3, 4)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("__defaults__", (5,)),
        ("__kwdefaults__", {"added": 7}),
        ("__code__", (lambda x, times=2, *, added=3: x - times - added).__code__),
    ],
)
def test_W28_other_code_and_defaults_of_the_function_itself_are_noticed(
    part: str, value: Any, tmp_path: Path
) -> None:
    def program(x: Tensor, times: int = 2, *, added: int = 3) -> Tensor:
        return x * times + added

    function = cache_compile(program, cache_dir=tmp_path)
    torch.testing.assert_close(function(X), program(X))
    before = function.folder
    setattr(program, part, value)
    for _ in range(2):
        torch.testing.assert_close(function(X), program(X))
    assert part == "__code__" or function.folder != before, "defaults are in the key"


def reads(x: Tensor) -> Tensor:
    return x * 2 if os.environ.get("AIR_TEST_OF_A_READ") == "1" else x


NAME = "AIR_TEST_OF_A_READ"


def reads_by_a_constant(x: Tensor) -> Tensor:
    return x * 2 if os.environ.get(NAME) == "1" else x


def reads_by_getenv(x: Tensor) -> Tensor:
    return x * 2 if os.getenv("AIR_TEST_OF_A_READ") == "1" else x


def reads_inside(x: Tensor) -> Tensor:
    return x * 2 if is_set(NAME) else x


def is_set(name: str) -> bool:
    return os.getenv(name, "0") == "1"


@pytest.mark.parametrize("program", [reads, reads_by_a_constant, reads_by_getenv, reads_inside])
@pytest.mark.parametrize("is_new", [False, True], ids=["in one process", "in another process"])
def test_W28_a_variable_of_the_environment_that_changed_is_noticed(
    program: Any, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = cache_compile(program, cache_dir=tmp_path)
    for value, count in ((None, 1), (None, 1), ("1", 2), (None, 2)):
        monkeypatch.delenv(NAME, raising=False)
        if value is not None:
            monkeypatch.setenv(NAME, value)
        if is_new:
            torch._dynamo.reset()
            function = cache_compile(program, cache_dir=tmp_path)
        torch.testing.assert_close(function(X), program(X))
        assert len([path for path in tmp_path.rglob("compiled_module*") if path.is_file()]) == count
