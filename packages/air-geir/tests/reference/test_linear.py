"""Products with a transposed weight are one call, where nothing else needs the transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import air_geir

aten = torch.ops.aten


def compiled(function: Callable[..., Any], *args: Tensor) -> tuple[Any, list[str]]:
    """What runs a function, and the operators that it runs one by one."""
    run = air_geir.compile_graph(make_fx(function, tracing_mode="fake")(*args), args, engine="reference")
    lines = run._compiled.source().splitlines()
    return run, [line.split("# ")[1].split()[0] for line in lines if " = k" in line]


def product(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (torch.nn.functional.linear(x, w, b).relu(),)


def without_bias(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (x @ w.t() + b,)


def read_elsewhere(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w.t()
    return (torch.addmm(b, x, turned), turned * 2)


def given_back(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w.t()
    return (x @ turned, turned)


def shared(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w.t()
    return (torch.addmm(b, x, turned), x @ turned)


def written_between(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w.t()
    before = torch.addmm(b, x, turned)
    aten.copy_.default(w, before[:1].expand(5, 5)[:, :4])
    return (before,)


def turned_first(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return ((w @ x.t()).t() + b,)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (product, ["MatMulV2", "Relu"]),
        (without_bias, ["MatMul", "Add"]),
        (shared, ["MatMulV2", "MatMul"]),
    ],
)
def test_one_call_computes_transpose_and_product(function: Callable[..., Any], expected: list[str]) -> None:
    args = (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5))
    run, operators = compiled(function, *args)
    torch.testing.assert_close(run(*args), list(function(*args)))
    assert operators == expected


def multiplied_by_itself(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w[:4].t()
    return (turned @ turned,)


def left_of_another(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    turned = w.t()
    return x @ turned, turned @ w[:, :1].t().t() @ w[:1, :3].t().t()


@pytest.mark.parametrize("function", [read_elsewhere, multiplied_by_itself, left_of_another])
def test_a_transpose_that_somebody_else_reads_stays(function: Callable[..., Any]) -> None:
    args = (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5))
    run, operators = compiled(function, *args)
    torch.testing.assert_close(run(*args), list(function(*args)))
    assert "Transpose" in operators


@pytest.mark.parametrize("function", [given_back, written_between, turned_first])
def test_other_products_are_what_eager_computes(function: Callable[..., Any]) -> None:
    args = (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5))
    run, _ = compiled(function, *args)
    mine, theirs = (tuple(arg.clone() for arg in args) for _ in range(2))
    torch.testing.assert_close(run(*mine), list(function(*theirs)))
    torch.testing.assert_close(mine, theirs)
