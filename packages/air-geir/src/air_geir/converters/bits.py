"""Shifts: what torch gives for every amount, also where the operator of a device leaves it open."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, i32, i64, u8

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


def _shift(op_type: str) -> Body:
    def convert(ctx: Context, self: Value, other: Any) -> Value:
        dtype = ctx.out_dtype
        (value,) = ctx.promote(self, dtype=dtype)
        if isinstance(other, int) and 0 <= other < torch.iinfo(dtype).bits:
            return ctx.emit(op_type, value, ctx.const(other, dtype))
        amount, inside = _amount(ctx, other, dtype)
        shifted = ctx.emit(op_type, value, amount)
        if op_type == "RightShift" and dtype.is_signed:
            return shifted
        return ctx.emit("SelectV2", inside, shifted, ctx.const(0, dtype))

    return convert


def _samples(overload: str) -> list[Sample]:
    if overload.startswith("prims."):
        return [Sample(i32(3, 4), i32(3, 4, low=0, high=3))]
    return _NUMBERS if overload.endswith("Scalar") else _TENSORS


_SHIFTS = {
    "bitwise_left_shift.Tensor": "LeftShift",
    "__lshift__.Tensor": "LeftShift",
    "__lshift__.Scalar": "LeftShift",
    "prims.shift_left.default": "LeftShift",
    "bitwise_right_shift.Tensor": "RightShift",
    "__rshift__.Tensor": "RightShift",
    "__rshift__.Scalar": "RightShift",
    "prims.shift_right_arithmetic.default": "RightShift",
}
register_rows(_SHIFTS, _shift, _samples, "bits")
