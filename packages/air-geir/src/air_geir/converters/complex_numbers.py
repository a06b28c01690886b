"""Complex numbers: their parts, length and direction; operators that mean something else for them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from air_geir.building import Context, Value
from air_geir.converters._precision import rounded_once
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_rows
from air_geir.converters._sample import Sample, bf16, c64, f16, f32, i32

aten = torch.ops.aten


def parts(ctx: Context, value: Value) -> tuple[Value, Value]:
    """Real and imaginary part."""
    dtype = value.dtype.to_real()
    real, imaginary = (
        ctx.emit(t, value, dtype=dtype, shape=value.shape, Tout=dtype) for t in ("Real", "Imag")
    )
    return real, imaginary


def joined(ctx: Context, real: Value, imaginary: Value) -> Value:
    """The complex numbers with these parts."""
    dtype = real.dtype.to_complex()
    return ctx.emit("Complex", real, imaginary, dtype=dtype, Tout=dtype)


def length(ctx: Context, value: Value) -> Value:
    """How far the numbers are from zero; numbers that are not complex keep their type."""
    if not value.dtype.is_complex:
        return ctx.emit("Abs", value)
    dtype = value.dtype.to_real()
    return ctx.emit("ComplexAbs", value, dtype=dtype, shape=value.shape, Tout=dtype)


def by_part(ctx: Context, value: Value, step: Callable[[Value], Value]) -> Value:
    """The same step for both parts."""
    real, imaginary = parts(ctx, value)
    return joined(ctx, step(real), step(imaginary))


@converts(aten.abs.default, samples=[Sample(f32(3, 4)), Sample(i32(5)), Sample(c64(3, 4))])
def abs_(ctx: Context, self: Value) -> Value:
    """abs(Tensor self) -> Tensor"""
    return ctx.emit("Identity", self) if self.is_bool else length(ctx, self)


@converts(
    aten.hypot.default, samples=[Sample(f32(3, 4), f32(4)), Sample(f16(9), f16(9)), Sample(bf16(9), bf16(9))]
)
def hypot(ctx: Context, self: Value, other: Value) -> Value:
    """hypot(Tensor self, Tensor other) -> Tensor"""
    dtype = ctx.out_dtype
    return rounded_once(ctx, lambda x, y: length(ctx, joined(ctx, x, y)), self, other, dtype=dtype)


@converts(aten.angle.default, samples=[Sample(c64(7)), Sample(f32(7)), Sample(i32(7))])
def angle(ctx: Context, self: Value) -> Value:
    """angle(Tensor self) -> Tensor"""
    if self.dtype.is_complex:
        real, imaginary = parts(ctx, self)
        return ctx.emit("Atan2", imaginary, real)
    dtype = ctx.out_dtype
    x = ctx.cast(self, dtype)
    half_turn = ctx.emit(
        "SelectV2", ctx.emit("Less", x, ctx.const(0, dtype)), ctx.const(math.pi, dtype), ctx.const(0, dtype)
    )
    return half_turn if not self.is_float else ctx.emit("SelectV2", ctx.emit("IsNan", x), x, half_turn)


@converts(aten.sign.default, samples=[Sample(f32(3, 4)), Sample(i32(3))])
def sign(ctx: Context, self: Value) -> Value:
    """sign(Tensor self) -> Tensor"""
    return ctx.emit("Identity", self) if self.is_bool else ctx.emit("Sign", self)


@converts(aten.sgn.default, samples=[Sample(f32(3, 4)), Sample(i32(3)), Sample(c64(3, 4))])
def sgn(ctx: Context, self: Value) -> Value:
    """sgn(Tensor self) -> Tensor"""
    if not self.dtype.is_complex:
        signs: Value = sign(ctx, self)
        return signs
    far = length(ctx, self)
    zero, one = ctx.const(0, far.dtype), ctx.const(1, far.dtype)
    divisor = ctx.emit("SelectV2", ctx.emit("Equal", far, zero), one, far)
    return by_part(ctx, self, lambda part: ctx.emit("RealDiv", part, divisor))


@converts("aten._conj.default", "aten._conj_physical.default", samples=[Sample(c64(3))])
def conj(ctx: Context, self: Value) -> Value:
    """_conj(Tensor(a) self) -> Tensor(a)"""
    return ctx.emit("Conj", self) if self.dtype.is_complex else ctx.emit("Identity", self)


@converts(aten.view_as_real.default, samples=[Sample(c64(2, 3))])
def view_as_real(ctx: Context, self: Value) -> Value:
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    return ctx.emit("Pack", list(parts(ctx, self)), axis=-1, N=2)


@converts(aten.complex.default, samples=[Sample(f32(3), f32(3))])
def complex_(ctx: Context, real: Value, imag: Value) -> Value:
    """complex(Tensor real, Tensor imag) -> Tensor"""
    return joined(ctx, real, imag)


@converts(aten.view_as_complex.default, samples=[Sample(f32(3, 2))])
def view_as_complex(ctx: Context, self: Value) -> Value:
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    real, imaginary = ctx.emit_many("Unpack", self, num=2, axis=-1, num_outputs=2)
    return joined(ctx, real, imaginary)


_PRIMS = {
    "prims.abs.default": abs_, "prims.sign.default": sign, "prims.conj.default": conj,
    "prims.conj_physical.default": conj, "prims.hypot.default": hypot,
    "prims.real.default": lambda ctx, value: parts(ctx, value)[0],
    "prims.imag.default": lambda ctx, value: parts(ctx, value)[1],
}  # fmt: skip
_PRIMS_SAMPLES = {
    "prims.sign.default": (Sample(f32(3)), Sample(i32(3))),
    "prims.hypot.default": (Sample(f32(3), f32(3)),),
}
register_rows(
    _PRIMS, lambda body: body,
    lambda name: _PRIMS_SAMPLES.get(name, (Sample(c64(3)),)),
    "complex_numbers",
)  # fmt: skip
