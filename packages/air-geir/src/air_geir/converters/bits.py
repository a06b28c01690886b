"""Shifts: what torch gives for every amount, also where the operator of a device leaves it open."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import each, register_rows
from air_geir.converters._sample import Sample, i32, i64, u8

aten = torch.ops.aten

_TENSORS = [
    Sample(i32(3, 4), i32(4, low=0, high=3)),
    Sample(i64(3, 4), i64(4, low=-70, high=70)),
    Sample(u8(9), u8(9, low=0, high=20)),
]
_NUMBERS = [Sample(i32(5), 3), Sample(i32(5), 40), Sample(i64(5), -1)]


def _amount(ctx: Context, amount: Any, dtype: torch.dtype) -> tuple[Value, Value]:
    """How far, within the width of the type, and where that is what was asked for."""
    bits = torch.iinfo(dtype).bits
    (far,) = ctx.promote(amount, dtype=dtype)
    inside = ctx.emit("Less", far, ctx.const(bits, dtype))
    if dtype.is_signed:
        positive = ctx.emit("GreaterEqual", far, ctx.const(0, dtype))
        inside = ctx.emit("LogicalAnd", inside, positive)
    return ctx.emit("SelectV2", inside, far, ctx.const(bits - 1, dtype)), inside


@converts(aten.bitwise_left_shift.Tensor, aten.__lshift__.Tensor, samples=_TENSORS)
@converts(aten.__lshift__.Scalar, samples=_NUMBERS)
def left_shift(ctx: Context, self: Value, other: Any) -> Value:
    """bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = ctx.out_dtype
    (value,) = ctx.promote(self, dtype=dtype)
    if isinstance(other, int) and 0 <= other < torch.iinfo(dtype).bits:
        return ctx.emit("LeftShift", value, ctx.const(other, dtype))
    amount, inside = _amount(ctx, other, dtype)
    return ctx.emit("SelectV2", inside, ctx.emit("LeftShift", value, amount), ctx.const(0, dtype))


@converts(
    aten.bitwise_right_shift.Tensor,
    aten.__rshift__.Tensor,
    samples=_TENSORS,
)
@converts(aten.__rshift__.Scalar, samples=_NUMBERS)
def right_shift(ctx: Context, self: Value, other: Any) -> Value:
    """bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = ctx.out_dtype
    (value,) = ctx.promote(self, dtype=dtype)
    if isinstance(other, int) and 0 <= other < torch.iinfo(dtype).bits:
        return ctx.emit("RightShift", value, ctx.const(other, dtype))
    amount, inside = _amount(ctx, other, dtype)
    shifted = ctx.emit("RightShift", value, amount)
    return shifted if dtype.is_signed else ctx.emit("SelectV2", inside, shifted, ctx.const(0, dtype))


_PRIMS = {"prims.shift_left.default": left_shift, "prims.shift_right_arithmetic.default": right_shift}
register_rows(_PRIMS, lambda body: body, each([Sample(i32(3, 4), i32(3, 4, low=0, high=3))]), "bits")
