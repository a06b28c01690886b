"""Fractions computed from sizes (`1 / math.sqrt(n)` with a dynamic n), as operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch

from air_geir.building._value import Value
from air_geir.errors import CannotConvert
from air_geir.ir import as_dim

if TYPE_CHECKING:
    from air_geir.building._context import Context

_BINARY: Mapping[str, str] = {
    "Add": "Add",
    "Mul": "Mul",
    "Pow": "Pow",
    "FloatPow": "Pow",
    "IntTrueDiv": "RealDiv",
    "FloatTrueDiv": "RealDiv",
    "Max": "Maximum",
    "Min": "Minimum",
}
_UNARY: Mapping[str, str] = {
    "OpaqueUnaryFn_sqrt": "Sqrt",
    "OpaqueUnaryFn_exp": "Exp",
    "OpaqueUnaryFn_log": "Log",
    "OpaqueUnaryFn_cos": "Cos",
    "OpaqueUnaryFn_sin": "Sin",
    "OpaqueUnaryFn_tanh": "Tanh",
}


def float_value(ctx: Context, number: torch.SymFloat) -> Value:
    """A symbolic fraction as a double scalar."""
    return _convert(ctx, number.node.expr)


def _convert(ctx: Context, expr: Any) -> Value:
    kind = type(expr).__name__
    if isinstance(expr, sympy.Number):
        return ctx.const(float(expr), torch.float64)
    if kind == "ToFloat":
        return ctx.cast(ctx.size(as_dim(expr.args[0])), torch.float64)
    if kind in _UNARY:
        return _emit(ctx, _UNARY[kind], _convert(ctx, expr.args[0]))
    if kind in _BINARY:
        result = _convert(ctx, expr.args[0])
        for operand in expr.args[1:]:
            result = _emit(ctx, _BINARY[kind], result, _convert(ctx, operand))
        return result
    if expr.is_integer:
        return ctx.cast(ctx.size(as_dim(expr)), torch.float64)
    raise CannotConvert(
        f"the number {expr} is computed from sizes in a way ({kind}) that has no operator",
        advice="compute it with tensors, or mark the dim static",
    )


def _emit(ctx: Context, op_type: str, *operands: Value) -> Value:
    result: Value = ctx.emit(op_type, *operands, dtype=torch.float64, shape=())
    return result
