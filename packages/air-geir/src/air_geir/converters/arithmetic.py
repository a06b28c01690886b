"""Sums, products, quotients and powers, and the operators that fuse two of them."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import fits_attribute, loses_digits, rounded_once, working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_rows
from air_geir.converters._sample import Sample, bf16, boolean, f16, f32, i32, i64

aten = torch.ops.aten


def _binary(ctx: Context, op_type: str, first: Any, second: Any) -> Value:
    return ctx.emit(op_type, *ctx.promote(first, second, dtype=ctx.out_dtype))


# first + alpha * second ---------------------------------------------------------------------------------------


def _sum(ctx: Context, first: Any, second: Any, alpha: Number, sign: int = 1) -> Value:
    """first + sign * alpha * second."""
    dtype = ctx.out_dtype
    if dtype == torch.bool:
        left, right = ctx.promote(first, second, dtype=dtype)
        return ctx.emit("LogicalOr", left, right if alpha else ctx.emit("ZerosLike", right))
    ctx.refuse_outside(alpha, dtype)
    if isinstance(alpha, (int, float)):
        if alpha == 1:
            return _binary(ctx, "Add" if sign > 0 else "Sub", first, second)
        if fits_attribute(float(alpha), dtype):
            left, right = ctx.promote(first, second, dtype=dtype)
            return ctx.emit("Axpy", left, right, alpha=float(sign * alpha))
    left, right = ctx.promote(first, second, dtype=dtype)
    factor: Any = alpha  # a symbolic one is negated by torch
    scaled = ctx.emit("Mul", right, ctx.number(factor if sign > 0 else -factor, dtype))
    return ctx.emit("Add", left, scaled)


_SUMS = [
    Sample(f32(2, 3), f32(3), alpha=2),
    Sample(f16(2, 3), f16(3), alpha=0.3),
    Sample(i32(2), f32(2)),
    Sample(i32(3), i32(3), alpha=-2),
]


_NUMBER = [Sample(f32(2, 3), 2.5), Sample(i32(2), 3, 2)]
_SUM_SAMPLES = {
    "add.Tensor": [*_SUMS, Sample(boolean(3), boolean(3)), Sample(bf16(3), 0.3)],
    "add.Scalar": _NUMBER,
    "sub.Scalar": _NUMBER,
    "rsub.Scalar": [*_NUMBER, Sample(f16(3), 0.3)],
}


def _summed(name: str) -> Body:
    def convert(ctx: Context, self: Value, other: Any, alpha: Number) -> Value:
        first, second = (other, self) if name == "rsub" else (self, other)
        return _sum(ctx, first, second, alpha, 1 if name == "add" else -1)

    return convert


register_rows(
    {f"{name}.{kind}": name for name in ("add", "sub", "rsub") for kind in ("Tensor", "Scalar")},
    _summed,
    lambda overload: _SUM_SAMPLES.get(overload, _SUMS),
    "arithmetic",
)


# products and quotients ---------------------------------------------------------------------------------------


_NUMBERS = [Sample(f32(3, 4), 1.5), Sample(i32(3, low=1), 2), Sample(bf16(9), 0.3)]
_TENSORS = [
    Sample(f32(3, 4, low=0.5, high=3), f32(4, low=0.5, high=3)),
    Sample(f32(3), f32(2, 3, low=0.5)),
    Sample(f16(9), f32(low=0.3, high=0.4)),
]


@converts(aten.mul.Scalar, samples=_NUMBERS)
@converts(aten.mul.Tensor, samples=[*_TENSORS, *_NUMBERS])
def mul(ctx: Context, self: Value, other: Any) -> Value:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = ctx.out_dtype
    if dtype == torch.bool:
        return ctx.emit("LogicalAnd", *ctx.promote(self, other, dtype=dtype))
    if loses_digits(other, dtype) and not isinstance(other, Value):
        return ctx.emit("Muls", ctx.cast(self, dtype), value=float(other))
    return _by_factor(ctx, "Mul", self, other)


def _by_factor(ctx: Context, op_type: str, first: Any, factor: Any) -> Value:
    """Two operands in the type of the result, except for a factor that half precision would cut off."""
    dtype = ctx.out_dtype
    if not loses_digits(factor, dtype):
        return _binary(ctx, op_type, first, factor)
    return rounded_once(ctx, lambda x, y: ctx.emit(op_type, x, y), first, factor, dtype=dtype)


def _divide(ctx: Context, first: Any, second: Any, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return _by_factor(ctx, "RealDiv", first, second)
    if rounding_mode == "floor":
        return _by_factor(ctx, "FloorDiv", first, second)
    if not ctx.out_dtype.is_floating_point:
        return _binary(ctx, "TruncateDiv", first, second)
    if loses_digits(second, ctx.out_dtype):
        return rounded_once(ctx, lambda x, y: _truncated(ctx, x, y), first, second, dtype=ctx.out_dtype)
    return _truncated(ctx, *ctx.promote(first, second, dtype=ctx.out_dtype))


def _truncated(ctx: Context, first: Value, second: Value) -> Value:
    return ctx.emit("Trunc", ctx.emit("RealDiv", first, second))


_MODES = [
    Sample(f32(3, 4, low=-9, high=9), f32(4, low=1, high=3), rounding_mode="trunc"),
    Sample(f32(3, 4, low=-9, high=9), f32(4, low=1, high=3), rounding_mode="floor"),
    Sample(i64(3, 4), i64(4, low=1, high=4), rounding_mode="trunc"),
    Sample(i64(3, 4), i64(4, low=1, high=4), rounding_mode="floor"),
    Sample(i64(3), i64(3, low=1), rounding_mode=None),
]


@converts(aten.div.Scalar, samples=_NUMBERS)
@converts(aten.div.Tensor, aten.true_divide.Tensor, samples=[*_TENSORS, *_NUMBERS])
def div(ctx: Context, self: Value, other: Any) -> Value:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _divide(ctx, self, other, None)


@converts(aten.div.Scalar_mode, samples=[Sample(f32(4, low=-9, high=9), 2.5, rounding_mode="trunc")])
@converts(aten.div.Tensor_mode, samples=_MODES)
def div_mode(ctx: Context, self: Value, other: Any, *, rounding_mode: str | None) -> Value:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    return _divide(ctx, self, other, rounding_mode)


@converts(
    aten.floor_divide.default,
    samples=[Sample(f32(3, 4, low=0.5), f32(4, low=0.5)), Sample(i64(3, 4), i64(4, low=1))],
)
def floor_divide(ctx: Context, self: Value, other: Value) -> Value:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    return _divide(ctx, self, other, "floor")


def _prims_div(row: None) -> Body:
    def convert(ctx: Context, first: Value, second: Value) -> Any:
        whole = not first.is_float and not first.dtype.is_complex
        return ctx.emit("TruncateDiv" if whole else "RealDiv", first, second)

    return convert


_QUOTIENTS = [Sample(f32(3), f32(3, low=1)), Sample(i32(3), i32(3, low=1))]
register_rows({"prims.div.default": None}, _prims_div, each(_QUOTIENTS), "arithmetic")


# powers -------------------------------------------------------------------------------------------------------

_POWERS = {0.5: "Sqrt", 2.0: "Square", -0.5: "Rsqrt", -1.0: "Reciprocal"}
"""Exponents for which torch takes another function, which differs at zeros and infinities; float16 and whole numbers do
so for squares only."""


@converts(aten.pow.Scalar, samples=[Sample(2.5, f32(3)), Sample(2, i64(3, low=0, high=4))])
@converts(
    aten.pow.Tensor_Tensor,
    samples=[Sample(f32(3, 4, low=0.1), f32(4)), Sample(i64(3), i64(3, low=0, high=3))],
)
def pow_tensor(ctx: Context, self: Value | Number, exponent: Value) -> Value:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    return _binary(ctx, "Pow", self, exponent)


@converts(
    aten.pow.Tensor_Scalar,
    samples=[
        Sample(f32(3), 2),
        Sample(f32(3, low=0.1), 0.5),
        Sample(i64(3), 3),
        Sample(f32(3), 3),
        Sample(f32(3), 0),
    ],
)
def pow_scalar(ctx: Context, self: Value, exponent: Number) -> Value:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    dtype = ctx.out_dtype
    ctx.refuse_outside(exponent, dtype)
    if not isinstance(exponent, (int, float)):
        return _binary(ctx, "Pow", self, exponent)
    if exponent < 0 and dtype in _WHOLE:
        ctx.refuse("whole numbers have no negative powers", "make them floating-point numbers first")
    if exponent == 0:
        return ctx.emit("OnesLike", ctx.cast(self, dtype), shape=self.shape)
    if exponent == 1:
        return ctx.emit("Identity", ctx.cast(self, dtype), shape=self.shape)
    chosen = _POWERS.get(float(exponent))
    if chosen == "Square" or (chosen is not None and dtype not in _ONLY_SQUARES):
        return ctx.emit(chosen, ctx.cast(self, dtype), shape=self.shape)
    return _binary(ctx, "Pow", self, exponent)


_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_ONLY_SQUARES = (*_WHOLE, torch.float16)


# two operations in one ----------------------------------------------------------------------------------------


def _fused(ctx: Context, op_type: str, *operands: Any) -> Value:
    """All operands in one type; a factor that half precision would cut off widens the whole operator."""
    dtype = ctx.out_dtype
    ctx.refuse_outside(operands[-1], working_dtype(dtype))
    if loses_digits(operands[-1], dtype):
        return rounded_once(ctx, lambda *wide: ctx.emit(op_type, *wide), *operands, dtype=dtype)
    return ctx.emit(op_type, *ctx.promote(*operands, dtype=dtype))


_FUSED = {
    "addcmul.default": "Addcmul",
    "addcdiv.default": "Addcdiv",
    "lerp.Scalar": "Lerp",
    "lerp.Tensor": "Lerp",
}
_FUSED_SAMPLES = {
    "addcmul.default": [
        Sample(f32(3, 4), f32(4), f32(3, 1), value=0.5),
        Sample(f16(9), f16(9), f16(9), value=0.3),
    ],
    "addcdiv.default": [
        Sample(f32(3, 4), f32(4), f32(3, 1, low=0.5), value=0.5),
        Sample(bf16(9), bf16(9), bf16(9, low=0.5), value=0.3),
    ],
    "lerp.Scalar": [Sample(f32(3, 4), f32(4), 0.3), Sample(f16(9), f16(9), 0.3)],
    "lerp.Tensor": [Sample(f32(3, 4), f32(4), f32(3, 1))],
}
register_rows(
    _FUSED,
    lambda op_type: lambda ctx, *operands: _fused(ctx, op_type, *operands),
    _FUSED_SAMPLES.__getitem__,
    "arithmetic",
)


@converts("prims.fma.default")
def fma(ctx: Context, a: Value, b: Value, c: Value) -> Value:
    """fma(Tensor a, Tensor b, Tensor c) -> Tensor"""
    return _fused(ctx, "Addcmul", c, a, b, 1)
