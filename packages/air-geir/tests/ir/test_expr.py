"""Expressions over sizes, against Python's integers."""

from __future__ import annotations

import pytest
import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import CeilDiv, FloorDiv, Max, Min, Mod, ModularIndexing

from air_geir.errors import ExpressionError
from air_geir.ir import Dim, Expr, as_dim, maximum, minimum, symbol

names = ("s0", "s1", "s2")
small = st.integers(1, 9)


def trees() -> st.SearchStrategy[Dim]:
    leaves = st.one_of(small, st.sampled_from(names).map(symbol))

    def grow(children: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pairs = st.tuples(children, children)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            pairs.map(lambda p: p[0] * p[1]),
            st.tuples(children, small).map(lambda p: p[0] // p[1]),
            st.tuples(children, small).map(lambda p: p[0] % p[1]),
            pairs.map(lambda p: minimum(*p)),
            pairs.map(lambda p: maximum(*p)),
            st.tuples(children, st.integers(0, 2)).map(lambda p: p[0] ** p[1]),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@given(trees(), st.fixed_dictionaries({n: small for n in names}))
def test_evaluating_equals_running_the_printed_source(tree: Dim, values: dict[str, int]) -> None:
    expected = eval(str(tree), {}, dict(values))
    assert (tree.evaluate(values) if isinstance(tree, Expr) else tree) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: FloorDiv(a + 1, 3),
        lambda a, b: Mod(a, 4),
        lambda a, b: Max(a, b - 2),
        lambda a, b: Min(a * b, 7),
        lambda a, b: a**2 - b,
        lambda a, b: FloorDiv(a * b * 6, 4),
        lambda a, b: CeilDiv(a, 5),
        lambda a, b: -a + 2 * b,
        lambda a, b: sympy.floor(a / 3),
        lambda a, b: sympy.ceiling((a + b) / 4),
    ],
)
def test_sympy_sizes_become_expressions_of_the_same_value(make: object) -> None:
    a, b = sympy.symbols("s0 s1", integer=True, positive=True)
    expr = make(a, b)  # type: ignore[operator]  # a parametrised lambda
    dim = as_dim(expr)
    for x in range(1, 12):
        for y in range(1, 12):
            got = dim.evaluate({"s0": x, "s1": y}) if isinstance(dim, Expr) else dim
            assert got == int(expr.subs({a: x, b: y}))


def test_a_size_without_counterpart_is_refused_by_name() -> None:
    s = sympy.Symbol("s0", integer=True, positive=True)
    with pytest.raises(ExpressionError, match="ModularIndexing"):
        as_dim(ModularIndexing(s, sympy.Integer(2), sympy.Symbol("s1", integer=True, positive=True)))


def test_a_symint_of_a_dynamic_tensor_becomes_a_symbol() -> None:
    env = ShapeEnv()
    mode = torch._subclasses.FakeTensorMode(shape_env=env)
    fake = mode.from_tensor(
        torch.ones(5, 3),
        symbolic_context=torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext(
            dynamic_sizes=[torch.fx.experimental.symbolic_shapes.DimDynamic.DYNAMIC] * 2
        ),
    )
    dim = as_dim(fake.shape[0] * 2 + fake.shape[1])
    assert isinstance(dim, Expr)
    assert len(dim.symbols()) == 2


def test_sums_and_products_do_not_care_about_order() -> None:
    a, b = symbol("a"), symbol("b")
    assert a + b + 1 == 1 + (b + a)
    assert a * 2 * b == b * a * 2
    assert a * 0 == 0
    assert a - a == 0


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(ExpressionError, match="symbol b has no value"):
        (symbol("a") + symbol("b")).evaluate({"a": 1})  # type: ignore[union-attr]  # a sum of symbols is an Expr


def test_division_by_zero_is_an_expression_error() -> None:
    with pytest.raises(ExpressionError, match="division by zero"):
        (symbol("a") // symbol("b")).evaluate({"a": 1, "b": 0})  # type: ignore[union-attr]  # an Expr
