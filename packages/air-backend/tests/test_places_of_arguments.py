"""An argument that a custom operator writes may begin at another place of its storage in each call: nobody checks that.

The trace knows where the argument of the first call began. Slots of a cache that are passed one by one are such a case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


@torch.library.custom_op("test_places::add_", mutates_args=("x",))
def add_(x: Tensor, y: Tensor) -> None:
    x.add_(y)


@add_.register_fake
def _(x: Tensor, y: Tensor) -> None:
    pass


def all_of_it(x: Tensor) -> Any:
    add_(x, x * 1)
    return x * 2


def rows_of_it(x: Tensor) -> Any:
    add_(x[1:], x[1:] * 1)
    return x + 1


def columns_of_it(x: Tensor) -> Any:
    add_(x[:, 1:3], x[:, :2] * 1)
    return x.sum(), x[0]


def twice(x: Tensor) -> Any:
    add_(x[1:, 1:], torch.ones_like(x[1:, 1:]))
    add_(x[0], x[1] * 1)
    return x.sum()


def dense(memory: Tensor, begin: int) -> Tensor:
    return memory[begin : begin + 16].view(4, 4)


def turned(memory: Tensor, begin: int) -> Tensor:
    return dense(memory, begin).t()


def with_gaps(memory: Tensor, begin: int) -> Tensor:
    return memory[begin : begin + 32].view(4, 8)[:, ::2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("begins", [(1, 0, 5), (3, 1, 0)])
@pytest.mark.parametrize(("function", "make"), [
    (all_of_it, dense), (all_of_it, with_gaps), (rows_of_it, dense), (columns_of_it, turned), (twice, with_gaps),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_what_is_written_lies_where_the_argument_of_the_call_does(
    function: Callable[[Tensor], Any],
    make: Callable[[Tensor, int], Tensor],
    begins: tuple[int, ...],
    dynamic: bool,
    mode: str,
) -> None:
    run = torch.compile(function, backend="air", dynamic=dynamic, options={"mode": mode})
    for begin in begins:
        own, eager = torch.arange(60.0), torch.arange(60.0)
        torch.testing.assert_close(run(make(own, begin)), function(make(eager, begin)))
        torch.testing.assert_close(own, eager)
