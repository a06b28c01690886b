"""What a function of `cache_compile` closes over: tensors are those of the reader, words are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning


@pytest.fixture(autouse=True)
def counted() -> None:
    counters.clear()


def traced() -> int:
    """How many graphs Dynamo has made since the test began."""
    return int(counters["stats"].get("unique_graphs", 0))


def closing(weight: Tensor, kind: str) -> Any:
    """A function that closes over a tensor, and over a function that closes over another and a word."""
    shift = weight + 1

    def shifted(x: Tensor) -> Tensor:
        return x + shift if kind == "plus" else x - shift

    def scaled(x: Tensor) -> Tensor:
        return shifted(x) * weight

    return scaled


def test_A51_a_tensor_that_is_closed_over_is_the_one_of_the_process_that_reads(tmp_path: Path) -> None:
    x = torch.randn(3)
    for weight, count in ((torch.randn(3), 1), (torch.randn(3), 0)):
        torch._dynamo.reset()
        before = traced()
        function = closing(weight, "plus")
        closed = cache_compile(function, cache_dir=tmp_path)
        torch.testing.assert_close(closed(x), function(x))
        weight.mul_(2)
        torch.testing.assert_close(closed(x), function(x))
        assert traced() - before == count
        assert [path.name for path in closed.folder.iterdir()] == ["compiled_module"]


def test_W28_what_an_inner_function_closes_over_is_compared(tmp_path: Path) -> None:
    x = torch.randn(3)
    for kind, dtype in (("plus", torch.float32), ("minus", torch.float32), ("plus", torch.float64)):
        torch._dynamo.reset()
        before = traced()
        function = closing(torch.randn(3, dtype=dtype), kind)
        torch.testing.assert_close(cache_compile(function, cache_dir=tmp_path)(x), function(x))
        assert traced() - before == 1, (kind, dtype)


def test_A51_a_tensor_that_is_a_default_is_compiled_in_each_process(tmp_path: Path) -> None:
    weight = torch.randn(3)

    def scaled(x: Tensor, weight: Tensor = weight) -> Tensor:
        return x * weight

    with pytest.warns(CacheWarning, match="scaled holds 'default 0', a Tensor"):
        function = cache_compile(scaled, cache_dir=tmp_path)
    torch.testing.assert_close(function(torch.ones(3)), weight)


def test_A51_a_constant_that_the_function_makes_on_a_device_is_read_onto_that_device(
    device: str, tmp_path: Path
) -> None:
    def step(x: Tensor) -> Tensor:
        return x + torch.tensor([3.0, 1.0, 2.0], device=x.device).sort()[0]

    x = torch.randn(4, 3, device=device)
    for _ in range(2):
        torch._dynamo.reset()
        function = cache_compile(step, cache_dir=tmp_path, options={"mode": "reduce-overhead"})
        torch.testing.assert_close(function(x), step(x))
    assert traced() == 1


def test_A51_a_graph_with_values_that_torch_cannot_read_again_is_compiled_in_each_process(
    tmp_path: Path,
) -> None:
    def step(x: Tensor) -> Tensor:
        places = x.nonzero()
        places[-1] = places[0]
        return places

    function = cache_compile(step, cache_dir=tmp_path, options={"mode": "max-autotune"})
    x = torch.arange(6).reshape(2, 3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        with pytest.warns(CacheWarning, match="sizes in its graph depend on data"):
            torch.testing.assert_close(function(x), step(x))
        torch.testing.assert_close(function(x), step(x))


def test_a_function_that_is_cached_before_what_it_closes_over_is_compiled_in_each_process(
    tmp_path: Path,
) -> None:
    def step(x: Tensor) -> Tensor:
        return x * weight

    with pytest.warns(CacheWarning, match="step closes over 'weight', which has no value yet"):
        function = cache_compile(step, cache_dir=tmp_path)
    weight = torch.randn(3)
    torch.testing.assert_close(function(torch.ones(3)), weight)
    assert traced() == 1
