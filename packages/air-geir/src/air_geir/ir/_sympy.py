"""From torch's symbolic sizes (sympy behind a SymInt) to expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from air_geir.errors import ExpressionError
from air_geir.ir._expr import Dim, apply, symbol

#: A fraction of Python's is exact beside sizes up to this numerator and denominator: both are powers of two, or small.
EXACT: Final = 1 << 20


def as_dim(size: int | torch.SymInt | sympy.Basic) -> Dim:
    """A number stays a number; a SymInt or a sympy expression becomes an expression over its symbols."""
    if isinstance(size, int):
        return size
    if isinstance(size, torch.SymInt):
        node = size.node
        if not hasattr(node, "expr"):
            return as_dim(node.maybe_as_int())
        return 1 if _is_held_to_be_one(size, node.expr) else as_dim(node.expr)
    convert = _RULES.get(type(size).__name__)
    if convert is None:
        convert = next((rule for base, rule in _BASES if isinstance(size, base)), None)
    if convert is None:
        raise ExpressionError(
            f"the size {size} uses {type(size).__name__}, which has no counterpart in Ascend IR",
            advice="sizes may use + - * // % ** min and max; compute others on tensors, or mark the dim static",
        )
    return convert(size)


def _is_held_to_be_one(size: torch.SymInt, expr: sympy.Basic) -> bool:
    """Whether a condition of the graph says so, of an expression that does not.

    Torch has left such an axis out where it squeezes or broadcasts, and the operators are converted by the same sizes.
    """
    return not expr.is_Symbol and not expr.is_number and statically_known_true(size == 1)


def _args(expr: sympy.Basic) -> tuple[Dim, ...]:
    return tuple(as_dim(a) for a in expr.args)


def _product(expr: sympy.Basic) -> Dim:
    """A product; a rational factor p/q and negative powers become one exact division at the end."""
    numerator: Dim = 1
    denominator: Dim = 1
    for factor in expr.args:
        if isinstance(factor, sympy.Rational) and not isinstance(factor, sympy.Integer):
            numerator = apply("mul", numerator, int(factor.p))
            denominator = apply("mul", denominator, int(factor.q))
        elif isinstance(factor, sympy.Pow) and isinstance(factor.exp, sympy.Integer) and factor.exp < 0:
            denominator = apply("mul", denominator, apply("pow", as_dim(factor.base), -int(factor.exp)))
        else:
            numerator = apply("mul", numerator, as_dim(factor))
    return numerator if denominator == 1 else apply("floordiv", numerator, denominator)


def _ceiling(expr: sympy.Basic) -> Dim:
    numerator, denominator = _over(expr.args[0])
    return apply("mul", -1, apply("floordiv", apply("mul", -1, numerator), denominator))


def _floor(expr: sympy.Basic) -> Dim:
    numerator, denominator = _over(expr.args[0])
    return apply("floordiv", numerator, denominator)


def _trunc(expr: sympy.Basic) -> Dim:
    """Towards zero: the floor of what is positive, and the ceiling of what is not."""
    if expr.args[0].is_nonnegative:
        return _floor(expr)
    return apply("add", apply("max", _floor(expr), 0), apply("min", _ceiling(expr), 0))


def _over(expr: sympy.Basic) -> tuple[Dim, Dim]:
    """Numerator and denominator of a quotient of sizes."""
    if type(expr).__name__ in ("IntTrueDiv", "CleanDiv", "FloorDiv"):
        return as_dim(expr.args[0]), as_dim(expr.args[1])
    numerator, denominator = sympy.fraction(sympy.together(_without_fractions(expr)))
    return as_dim(numerator), as_dim(denominator)


def _without_fractions(expr: sympy.Basic) -> sympy.Basic:
    """The expression with Python's fractions as quotients, where Python rounds nothing: halves, quarters and so on.

    Sums and products of sizes with them are exact, so that floor and ceiling of them are those of whole numbers. Of any
    other fraction they are not: `int(10 * 0.7)` is 7, though the number that Python holds for 0.7 is smaller.
    """
    if isinstance(expr, sympy.Float):
        exact = sympy.Rational(*float(expr).as_integer_ratio())
        return exact if max(abs(exact.p), exact.q) <= EXACT else expr
    if type(expr).__name__ == "ToFloat":
        return expr.args[0]
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        return expr.func(*map(_without_fractions, expr.args))
    return expr


def _call(op: str) -> Callable[[sympy.Basic], Dim]:
    return lambda expr: reduce(lambda a, b: apply(op, a, b), _args(expr))


_RULES: Mapping[str, Callable[[sympy.Basic], Dim]] = {
    "FloorDiv": _call("floordiv"),
    "CleanDiv": _call("floordiv"),
    "Mod": _call("mod"),
    "PythonMod": _call("mod"),
    "Max": _call("max"),
    "Min": _call("min"),
    "PowByNatural": _call("pow"),
    "Identity": lambda expr: as_dim(expr.args[0]),
    "floor": _floor,
    "FloorToInt": _floor,
    "TruncToInt": _trunc,
    "ceiling": _ceiling,
    "CeilToInt": _ceiling,
}
_BASES: tuple[tuple[type[sympy.Basic], Callable[[sympy.Basic], Dim]], ...] = (
    (sympy.Symbol, lambda expr: symbol(str(expr))),
    (sympy.Integer, int),
    (sympy.Add, _call("add")),
    (sympy.Mul, _product),
    (sympy.Pow, _call("pow")),
)
