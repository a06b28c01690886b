"""Numbers that decide no size are put on the device before a replay: one capture serves all of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

import air_streams
from air_backend import CompilerConfig, _records, get_npu_backend


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    torch._dynamo.reset()
    counters.clear()
    config = CompilerConfig.from_options({"mode": "reduce-overhead", **options})
    backend = get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=True)


def masked(x: Tensor, position: int) -> tuple[Tensor, Tensor, int]:
    at = torch.arange(4, device=x.device) + position
    seen = torch.arange(8, device=x.device) <= position + 1
    return x * at, (x.sum() * seen), position + 4


def test_N23_a_position_that_grows_is_captured_once(device: str) -> None:
    run = compiled(masked)
    x = torch.randn(4, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for position in range(3, 12):
            found, expected = run(x, position), masked(x, position)
            torch.testing.assert_close(found, expected)
    assert counters["air"]["captures"] == 1
    assert counters["air"]["replays"] == 8
    (executable,) = (executable for _, executable in _records.alive())
    assert len(executable.pieces) == 1
    told = executable.explain()["numbers of each call"]
    assert ["test_numbers.py" in each["where"] for each in told] == [True, True]


def test_a_number_that_two_kernels_would_round_otherwise_is_part_of_the_key(device: str) -> None:
    run = compiled(lambda x, n: x * n)
    x = torch.randn(4, device=device)
    for number in (3, 5, 1 << 24):
        assert torch.equal(run(x, number), x * number)
    assert counters["air"]["captures"] == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: (torch.arange(4, device=x.device) + n, x[:n] * 2),
        lambda x, n: (torch.arange(n, device=x.device) + n, x),
        lambda x, n: torch.arange(4, device=x.device).float() + n + x,
        lambda x, n: torch.arange(4, device=x.device) + n // 2 + n * x.shape[0] - x.shape[0] * 2,
        lambda x, n: (n, n + 1, x + 1),
        lambda x, n: torch.full((4,), n, device=x.device) + torch.arange(4, device=x.device) * n,
        lambda x, n: (torch.arange(4, device=x.device, dtype=torch.int32) + n).sum() + x,
        lambda x, n: torch.arange(4, device=x.device).sub_(n).mul_(n) - n,
    ],
)
def test_numbers_give_eagers_values(function: Callable[..., Any], device: str) -> None:
    run = compiled(function)
    x = torch.randn(4, device=device)
    for number in (2, 3, 4, 3):
        torch.testing.assert_close(run(x, number), function(x, number))


def test_a_graph_of_several_streams_keeps_numbers_in_the_key(device: str) -> None:
    def sided(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        with air_streams.scope.npu_stream_switch("side"):
            at = torch.arange(4, device=x.device) + n
        return x + 1, at

    run = compiled(sided)
    x = torch.randn(4, device=device)
    for number in (3, 5):
        torch.testing.assert_close(run(x, number), (x + 1, torch.arange(4, device=device) + number))
    assert counters["air"]["captures"] == 2


def rounded_sizes(x: Tensor) -> Tensor:
    return x[: int(x.size(0) * 0.5)] * (math.floor(x.size(0) + 1.0) * 3)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_sizes_that_are_rounded_after_a_product_stay_open(mode: str) -> None:
    run = compiled(rounded_sizes, mode=mode)
    for rows in (4, 7, 9):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(run(x), rounded_sizes(x))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_integers_are_divided_by_integers_whatever_their_number_is() -> None:
    """The graph engine asks for the sizes of results before it knows a divisor."""
    torch._dynamo.reset()

    def divided(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")

    run = torch.compile(divided, backend="air", dynamic=True, options={"mode": "max-autotune"})
    for count in (4, 6, 8):
        x = torch.arange(-3, count - 3, dtype=torch.int32, device="npu")
        y = torch.tensor([3, -2] * (count // 2), dtype=torch.int32, device="npu")
        for found, expected in zip(run(x, y), divided(x, y), strict=True):
            torch.testing.assert_close(found, expected)
