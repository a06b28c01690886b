"""Sizes that a trace left open: a symbol is one size in a call, and others follow from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import compile_fx
from air_backend._kinds import kinds_of
from air_backend.errors import OtherInput


def product(x: Tensor, w: Tensor) -> tuple[Tensor]:
    return (x @ w,)


def joined(x: Tensor, y: Tensor) -> tuple[Tensor]:
    return (torch.cat((x, x)) + y,)


def numbered(x: Tensor, count: int) -> tuple[Tensor]:
    return (x * count,)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_A24_a_symbol_that_stands_for_several_sizes_is_one_size_in_a_call(mode: str) -> None:
    graph = make_fx(product, tracing_mode="symbolic")(torch.randn(4, 8), torch.randn(8, 4))
    run = compile_fx(graph, options={"mode": mode})
    for rows, inner in ((4, 8), (5, 3), (1, 2)):
        x, w = torch.randn(rows, inner), torch.randn(inner, rows)
        torch.testing.assert_close(run(x, w)[0], graph(x, w)[0])
    with pytest.raises(OtherInput, match=r"argument 1 is float32\[8, 1\].*, where s\d+ is \d, s\d+ is \d"):
        run(torch.randn(4, 8), torch.randn(8, 1))


def kinds(function: Callable[..., tuple[Tensor]], *inputs: Tensor | int) -> Callable[..., str | None]:
    graph = make_fx(function, tracing_mode="symbolic")(*inputs)
    found = kinds_of(graph, inputs)
    return lambda *args: found.difference(args)


def test_a_size_that_follows_from_another_is_that_size() -> None:
    difference = kinds(joined, torch.ones(3, 2), torch.ones(6, 2))
    assert difference(torch.ones(3, 2), torch.ones(6, 2)) is None
    assert difference(torch.ones(5, 4), torch.ones(10, 4)) is None
    assert "argument 1 is float32[9, 4]" in str(difference(torch.ones(5, 4), torch.ones(9, 4)))


def test_an_open_number_may_be_any_and_is_a_number() -> None:
    difference = kinds(numbered, torch.ones(3, 2), 7)
    assert difference(torch.ones(4, 2), 8) is None
    assert "argument 1 is 2.5" in str(difference(torch.ones(4, 2), 2.5))
