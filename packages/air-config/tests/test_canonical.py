"""Canonical texts: what is equal has one text in every process, what differs has another."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from air_config import CompilerConfig
from air_config._canonical import canonical_text, digest_of


def text(value: object) -> str:
    return canonical_text({"x": value})


def adds(amount: object) -> Callable[..., object]:
    return lambda *value: (value, amount)


@dataclasses.dataclass(frozen=True)
class FrozenPass:
    amount: int

    def __call__(self, gm: object) -> None: ...


class OwnName:
    def __init__(self, name: str) -> None:
        self.name = name

    def uuid(self) -> str:
        return self.name

    def __call__(self, gm: object) -> None: ...


class Opaque:
    def __call__(self, gm: object) -> None: ...

    def method(self, gm: object) -> None: ...


def with_default(value: int = 1) -> int:
    return value


def recursive() -> Callable[[], object]:
    def again() -> object:
        return again

    return again


def with_set(value: str) -> bool:
    return value in {"add", "mul", "sub", "div"}


SAME: list[tuple[object, object]] = [
    (adds(1), adds(1)),
    (adds((1, "a", None)), adds((1, "a", None))),
    (functools.partial(with_default, value=2), functools.partial(with_default, value=2)),
    (FrozenPass(1), FrozenPass(1)),
    (OwnName("a"), OwnName("a")),
    (recursive(), recursive()),
    (print, print),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
    ([1, 2], (1, 2)),
]
DIFFERENT: list[tuple[object, object]] = [
    (1, True),
    (1, 1.0),
    (0, False),
    (0, None),
    ("1", 1),
    ("", None),
    ([], {}),
    (adds(1), adds(2)),
    (adds(1), adds(True)),
    (functools.partial(with_default, value=2), functools.partial(with_default, value=3)),
    (functools.partial(with_default, 2), with_default),
    (FrozenPass(1), FrozenPass(2)),
    (OwnName("a"), OwnName("b")),
    (Opaque(), Opaque()),
    (Opaque().method, Opaque().method),
    (lambda gm: 1, lambda gm: 2),
    (print, len),
    (str, int),
    (adds, with_default),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_values_have_one_text(first: object, second: object) -> None:
    assert text(first) == text(second)
    assert digest_of({"x": first}) == digest_of({"x": second})


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_values_have_different_texts(first: object, second: object) -> None:
    assert text(first) != text(second)
    assert digest_of({"x": first}) != digest_of({"x": second})


def test_an_object_that_tells_nothing_about_itself_is_equal_to_itself() -> None:
    one = Opaque()
    assert text(one) == text(one)
    assert text(one.method) == text(one.method)


def test_an_object_keeps_its_text_apart_from_later_ones_in_the_same_memory() -> None:
    assert len({text(Opaque()) for _ in range(50)}) == 50


def test_an_edited_function_is_a_different_function() -> None:
    before: dict[str, Any] = {"__name__": "m"}
    after: dict[str, Any] = {"__name__": "m"}
    exec("def f(gm):\n    return gm.graph.lint()", before)
    exec("def f(gm):\n    return gm.graph.nodes()", after)
    assert text(before["f"]) != text(after["f"])


def test_changing_a_default_or_a_captured_value_changes_the_text() -> None:
    before = text(with_default)
    with_default.__defaults__ = (2,)
    try:
        assert text(with_default) != before
    finally:
        with_default.__defaults__ = (1,)
    assert text(with_default) == before


PROGRAM = """
import json, sys
from air_config import CompilerConfig, resolve
sys.path.insert(0, sys.argv[1])
import passes
config = CompilerConfig.from_options({"mode": "reduce-overhead", "capture_limit": 3,
    "super_kernel_optimize_options": {"split_mode": 1, "preload_code": 2},
    "post_grad_custom_pre_pass": passes.by_name, "post_grad_custom_post_pass": passes.made})
print(json.dumps([config.digest, resolve(config).digest]))
"""
PASSES = """
def by_name(gm, example_inputs, config):
    return str(gm) in {"add", "mul", "sub", "div", "cat"}

def make(amount):
    def inner(gm, example_inputs, config):
        return amount
    return inner

made = make(("a", 1))
"""


def test_a_digest_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text(PASSES)
    seen = set()
    for seed in ("0", "1", "42"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        seen.add(tuple(json.loads(run.stdout)))
    assert len(seen) == 1


def test_a_configuration_with_functions_compares_by_what_they_do() -> None:
    first, second, third = CompilerConfig(), CompilerConfig(), CompilerConfig()
    first.post_grad_custom_pre_pass = adds(1)
    second.post_grad_custom_pre_pass = adds(1)
    third.post_grad_custom_pre_pass = adds(2)
    assert first == second
    assert first.digest == second.digest
    assert first != third
    assert first.digest != third.digest
