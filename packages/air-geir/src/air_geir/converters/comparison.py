"""Comparison, logic and choice."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_direct, register_rows
from air_geir.converters._sample import Sample, boolean, f32, i32, i64
from air_geir.converters.complex_numbers import parts

aten = torch.ops.aten

_COMPARE = {
    overload: op_type
    for name, op_type in {
        "eq": "Equal",
        "ne": "NotEqual",
        "lt": "Less",
        "le": "LessEqual",
        "gt": "Greater",
        "ge": "GreaterEqual",
    }.items()
    for overload in (f"{name}.Tensor", f"{name}.Scalar", f"prims.{name}.default")
}


def _compare(op_type: str) -> Body:
    def convert(ctx: Context, self: Value, other: Any) -> Any:
        left, right = ctx.promote(self, other)
        if left.is_bool and op_type not in ("Equal", "NotEqual"):
            left, right = ctx.cast(left, torch.int32), ctx.cast(right, torch.int32)
        return ctx.emit(op_type, left, right)

    return convert


def _compare_samples(overload: str) -> tuple[Sample, ...]:
    if overload.startswith("prims"):
        return (Sample(f32(3, 4), f32(3, 4)),)
    if overload.endswith("Scalar"):
        return (Sample(i32(3, 4), 2), Sample(i64(5), 1.5), Sample(f32(3), 0.5))
    return (Sample(i32(3, 4), i32(4)), Sample(f32(3), i64(3)), Sample(boolean(4), boolean(4)))


register_rows(_COMPARE, _compare, _compare_samples, "comparison")

_LOGICAL = {
    "logical_and.default": "LogicalAnd",
    "logical_or.default": "LogicalOr",
    "logical_xor.default": "NotEqual",
}


def as_bool(ctx: Context, value: Value) -> Value:
    """True where an element is not zero."""
    if value.is_bool:
        return value
    return ctx.emit("NotEqual", value, ctx.const(0, value.dtype), shape=value.shape)


def _logical(op_type: str) -> Body:
    def convert(ctx: Context, self: Value, other: Value) -> Any:
        return ctx.emit(op_type, as_bool(ctx, self), as_bool(ctx, other))

    return convert


register_rows(
    _LOGICAL, _logical, each([Sample(boolean(3, 4), boolean(4)), Sample(f32(4), i32(4))]), "comparison"
)


@converts(aten.logical_not.default, samples=[Sample(boolean(4)), Sample(i32(5))])
def logical_not(ctx: Context, self: Value) -> Value:
    """logical_not(Tensor self) -> Tensor"""
    return ctx.emit("LogicalNot", as_bool(ctx, self))


def _larger(op_type: str) -> Body:
    """The larger or smaller of two, where NaN gives way to a number."""

    def convert(ctx: Context, first: Value, second: Value) -> Any:
        dtype = ctx.out_dtype
        left, right = ctx.promote(first, second, dtype=dtype)
        if dtype == torch.bool:
            return ctx.emit("LogicalOr" if op_type == "Maximum" else "LogicalAnd", left, right)
        best = ctx.emit(op_type, left, right)
        if not dtype.is_floating_point:
            return best
        best = ctx.emit("SelectV2", ctx.emit("IsNan", right), left, best)
        return ctx.emit("SelectV2", ctx.emit("IsNan", left), right, best)

    return convert


_NANS = torch.tensor([1.0, float("nan"), 2.0, float("nan")])
_EXTREMES = {
    f"{prefix}{name}.default": op_type
    for prefix in ("", "prims.")
    for name, op_type in (("fmax", "Maximum"), ("fmin", "Minimum"))
}
_PAIRS = [Sample(_NANS, _NANS.roll(1)), Sample(f32(4), f32(4)), Sample(i32(4), i32(4))]
register_rows(_EXTREMES, _larger, each(_PAIRS), "comparison")


_TESTS = {
    "prims.isfinite.default": "IsFinite",
    "isinf.default": "IsInf",
    "isnan.default": "IsNan",
    "isfinite.default": "IsFinite",
}


def _test(op_type: str) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        if self.dtype.is_complex:
            either = "LogicalAnd" if op_type == "IsFinite" else "LogicalOr"
            return ctx.emit(either, *(ctx.emit(op_type, part) for part in parts(ctx, self)))
        if not self.is_float:
            return ctx.fill(self.dims, op_type == "IsFinite", torch.bool)
        return ctx.emit(op_type, self)

    return convert


_SPECIAL = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 2.0])
register_rows(
    _TESTS, _test, each([Sample(_SPECIAL), Sample(torch.complex(_SPECIAL, _SPECIAL.flip(0))), Sample(i32(3))]),
    "comparison",
)  # fmt: skip


@converts(
    aten.where.self,
    samples=[Sample(boolean(3, 4), f32(4), f32(3, 1)), Sample(boolean(3), i32(3), f32(3))],
)
def where(ctx: Context, condition: Value, self: Value, other: Value) -> Value:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    first, second = ctx.promote(self, other, dtype=ctx.out_dtype)
    return ctx.emit("SelectV2", as_bool(ctx, condition), first, second)


@converts(aten.masked_fill.Tensor, samples=[Sample(f32(3, 4), boolean(4), f32())])
@converts(
    aten.masked_fill.Scalar,
    samples=[Sample(f32(3, 4), boolean(4), float("-inf")), Sample(i32(3), boolean(3), 5)],
)
def masked_fill(ctx: Context, self: Value, mask: Value, value: Number | Value) -> Value:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return ctx.emit("MaskedFill", self, mask, ctx.converted(value, self.dtype))


register_direct(
    {"prims.where.default": ("SelectV2(pred a b)", [Sample(boolean(3), f32(3), f32(3))])}, "comparison"
)
