"""Sizes that a program computes with fractions of Python are those of Python, or are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from air_geir.errors import ExpressionError
from air_geir.ir._sympy import as_dim

SIZES = (*range(41), 1000, 65537)


def computed(rule: Callable[[int], int]) -> sympy.Basic:
    """The expression that torch has for a size computed of another."""

    seen: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(rule(x.size(0)))
        return x

    make_fx(function, tracing_mode="symbolic")(torch.zeros(8))
    return seen[-1].node.expr


@pytest.mark.parametrize(
    "rule",
    [
        lambda n: math.floor(n + 1.0) * 3,
        lambda n: torch.sym_int(n * 0.5),
        lambda n: math.ceil(n * 0.25),
        lambda n: torch.sym_int((n + 3) * 1.5),
        lambda n: torch.sym_int(n / 2),
        lambda n: math.floor(n * 0.75 - 0.5),
    ],
)
def test_exact_fractions_give_pythons_whole_numbers(rule: Callable[[int], int]) -> None:
    expr = computed(rule)
    dim = as_dim(expr)
    (name,) = {str(symbol) for symbol in expr.free_symbols}
    for n in SIZES:
        assert (dim if isinstance(dim, int) else dim.evaluate({name: n})) == rule(n)


@pytest.mark.parametrize("fraction", [0.7, 0.1, 1 / 3, 1e-9])
def test_a_fraction_that_python_rounds_is_refused_and_not_approximated(fraction: float) -> None:
    with pytest.raises(ExpressionError, match="uses Float"):
        as_dim(computed(lambda n: torch.sym_int(n * fraction)))


def test_a_negative_number_is_cut_towards_zero() -> None:
    from torch.utils._sympy.functions import TruncToInt

    n = sympy.Symbol("n", integer=True)
    dim = as_dim(TruncToInt(n * sympy.Float(0.5)))
    assert not isinstance(dim, int)
    for value in range(-9, 10):
        assert dim.evaluate({"n": value}) == int(value * 0.5)
