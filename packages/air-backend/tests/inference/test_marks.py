"""A function of `cache_compile` whose inputs are marked, or have declared sizes: its file is read like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

import air_backend
from air_backend import _records
from air_backend.inference import cache_compile, set_dim_buckets, set_dim_gears
from air_geir.gears import guard_gears


def traced() -> int:
    """How many graphs Dynamo has made since the counters were cleared."""
    return int(counters["stats"].get("unique_graphs", 0))


def files(function: Any) -> list[str]:
    return sorted(path.name for path in function.folder.iterdir())


def sine(x: Tensor) -> Tensor:
    return x.sin()


MARKED: dict[str, Any] = {
    "mark_static": lambda x: torch._dynamo.mark_static(x),
    "mark_dynamic": lambda x: torch._dynamo.mark_dynamic(x, 0),
    "maybe_mark_dynamic": lambda x: torch._dynamo.maybe_mark_dynamic(x, 0),
}


@pytest.mark.parametrize("name", MARKED)
def test_A51_G17_a_graph_of_a_marked_tensor_is_read(name: str, tmp_path: Path) -> None:
    for times in range(2):
        torch._dynamo.reset()
        counters.clear()
        function = cache_compile(sine, cache_dir=tmp_path)
        x = torch.randn(3, 4)
        MARKED[name](x)
        assert torch.equal(function(x), x.sin())
        assert traced() == (1 if times == 0 else 0)
    assert files(function) == ["compiled_module"]


def test_A51_other_marks_are_traced_anew(tmp_path: Path) -> None:
    for mark in ("mark_static", "mark_dynamic"):
        torch._dynamo.reset()
        function = cache_compile(sine, cache_dir=tmp_path)
        x = torch.randn(3, 4)
        MARKED[mark](x)
        assert torch.equal(function(x), x.sin())
    assert files(function) == ["compiled_module", "compiled_module.1"]


def declaring(mode: str, declare: Any, folder: Path, rows: tuple[int, ...]) -> int:
    """Calls a function with inputs on which sizes are declared; how many graphs were traced."""
    torch._dynamo.reset()
    counters.clear()
    config = air_backend.CompilerConfig()
    config.set("mode", mode)
    function = cache_compile(sine, config=config, cache_dir=folder)
    for count in rows:
        x = torch.randn(count, 4)
        declare(x, {0: [4, 8]})
        assert torch.equal(function(x), x.sin())
    return traced()


def test_A51_N11_a_graph_with_buckets_is_read_and_pads(tmp_path: Path) -> None:
    for first in (True, False):
        assert declaring("reduce-overhead", set_dim_buckets, tmp_path, (3, 7, 5, 4)) == int(first)
        run: Any = _records.alive()[-1][1]
        assert (run.stats()["captures"], run.stats()["padded"]) == (2, 4)


def test_A51_G16_a_graph_with_gears_is_read_and_compiled_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def guard(inputs: Any, gears: Any) -> None:
        found.extend(gears.values())
        guard_gears(inputs, gears)

    monkeypatch.setattr("air_geir._compile.guard_gears", guard)
    for first in (True, False):
        assert declaring("max-autotune", set_dim_gears, tmp_path, (4, 8, 4)) == int(first)
    assert found == [{0: (4, 8)}] * 2


TURNED: dict[str, tuple[Any, tuple[int, int], dict[int, list[int]]]] = {
    "squeeze_": (set_dim_gears, (3, 1), {1: [1, 5]}),
    "t_": (set_dim_buckets, (3, 4), {1: [4, 8]}),
}


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", TURNED)
@pytest.mark.filterwarnings("ignore::air_backend.errors.BucketsIgnored")
def test_G16_declared_sizes_are_left_out_where_the_program_turns_the_tensor(name: str, mode: str) -> None:
    def turned(x: Tensor) -> Tensor:
        getattr(x, name)()
        return x * 2

    torch._dynamo.reset()
    declare, sizes, declared = TURNED[name]
    run = torch.compile(turned, backend="air", dynamic=True, options={"mode": mode})
    x = torch.randn(sizes)
    y = x.clone()
    declare(x, declared)
    assert torch.equal(run(x), turned(y))
    assert x.shape == y.shape
