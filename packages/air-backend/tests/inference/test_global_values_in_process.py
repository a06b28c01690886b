"""A graph of `cache_compile` holds while the globals it took in are what they were: in one process as well."""

from __future__ import annotations

import gc
import importlib
import logging
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning

X = torch.tensor([-1.0, 1.0, 2.0])
UNGUARDED = pytest.mark.skipif(
    torch.__version__ < "2.12", reason='torch 2.11 has no condition on it, with backend="eager" either'
)


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> ModuleType:
    name = f"program_of_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text("import torch\n" + text)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


@pytest.mark.parametrize("read", [False, True], ids=["traced", "read"])
@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("VALUE = 2", "VALUE = 3", "x * VALUE"),
        ("VALUE = [1, 2]", "VALUE.append(3)", "x * len(VALUE)"),
        ("VALUE = {'b': 1}", "VALUE['a'] = 1", "x * 2 if 'a' in VALUE else x * 3"),
        ("VALUE = {'b'}", "VALUE.add('a')", "x * 2 if 'a' in VALUE else x * 3"),
        ("VALUE = {(0, 2.0)}", "VALUE = {(0, 5.0)}", "x * [factor for _, factor in VALUE][0]"),
        ("VALUE = {(0, 2.0): 1}", "VALUE = {(0, 5.0): 1}", "x * [factor for _, factor in VALUE][0]"),
        pytest.param("class VALUE:\n    k = 2", "VALUE.k = 3", "x * VALUE.k", marks=UNGUARDED),
        ("class C: pass\nVALUE = C()", "VALUE.k = 3", "x * 2 if hasattr(VALUE, 'k') else x"),
        ("def VALUE(x): return x + 1", "VALUE = torch.neg", "VALUE(x)"),
        ("VALUE = torch.float64", "VALUE = torch.float16", "x.to(VALUE)"),
        ("VALUE = torch.ones(3)", "VALUE = torch.full((3,), 2.0)", "x + VALUE"),
        ("VALUE = torch.ones(3)", "VALUE = torch.ones(3, dtype=torch.float64)", "x + VALUE"),
        ("VALUE = torch.ones(3)", "VALUE.resize_(1)", "x + VALUE"),
        ("VALUE = torch.ones(3, 1)", "VALUE = torch.ones(1, 3).mT", "x + VALUE.stride(1)"),
        ("VALUE = False", "del VALUE\nimport builtins\nbuiltins.VALUE = True", "x * 3 if VALUE else x * 2"),
    ],
)
def test_W28_a_global_that_changes_between_two_calls_is_noticed(
    before: str, after: str, text: str, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = module(tmp_path, monkeypatch, f"{before}\n\ndef program(x):\n    return {text}\n")
    function = cache_compile(program.program, cache_dir=tmp_path)
    torch.testing.assert_close(function(X), program.program(X))
    if read:
        torch._dynamo.reset()
        function = cache_compile(program.program, cache_dir=tmp_path)
        torch.testing.assert_close(function(X), program.program(X))
    exec(after, vars(program))
    try:
        for _ in range(2):
            torch.testing.assert_close(function(X), program.program(X))
    finally:
        vars(__import__("builtins")).pop("VALUE", None)


@pytest.mark.parametrize("read", [False, True], ids=["traced", "read"])
def test_A51_a_global_tensor_is_that_of_the_module(
    read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = module(tmp_path, monkeypatch, "T = torch.ones(3)\n\ndef program(x):\n    return x * T\n")
    function = cache_compile(program.program, cache_dir=tmp_path)
    function(X)
    if read:
        torch._dynamo.reset()
        function = cache_compile(program.program, cache_dir=tmp_path)
        function(X)
    with caplog.at_level(logging.WARNING):
        vars(program)["T"] = torch.full((3,), 5.0)
        torch.testing.assert_close(function(X), X * 5)
    assert not caplog.records, "the graph that is there takes it"


COUNTS = """
COUNT = 0

def program(x):
    global COUNT
    COUNT += 1
    return x + COUNT
"""


def test_A51_a_global_that_is_written_is_written_in_the_module_and_is_not_traced_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = module(tmp_path, monkeypatch, COUNTS)
    function = cache_compile(program.program, cache_dir=tmp_path)
    limit = torch._dynamo.config.recompile_limit
    for number in range(1, limit + 1):
        torch.testing.assert_close(function(X), X + number)
        assert number == program.COUNT
    with pytest.warns(CacheWarning, match=r"G\['COUNT'\] changes from call to call"):
        function(X)
    for number in range(limit + 2, limit + 5):
        torch.testing.assert_close(function(X), X + number)
    assert len([path for path in tmp_path.rglob("compiled_module*") if path.is_file()]) == limit


def test_A51_what_a_graph_put_into_a_module_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = module(tmp_path, monkeypatch, "def program(x):\n    return torch.relu(x)\n")
    function: Any = cache_compile(program.program, cache_dir=tmp_path)
    function(X)
    assert any(name.startswith("_air_graph_") for name in vars(program))
    del function
    torch._dynamo.reset()
    gc.collect()
    assert not any(name.startswith("_air_graph_") for name in vars(program))
