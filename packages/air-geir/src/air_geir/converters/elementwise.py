"""Arithmetic on elements."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import attributes_must_fit, rounded_once
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_rows
from air_geir.converters._sample import Sample, boolean, f16, f32, i32, i64
from air_geir.converters.complex_numbers import by_part

aten = torch.ops.aten

# one operand; the result type is the operand's, integers become the default float where torch says so
_UNARY_OF_BOTH = {
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "erfc": "Erfc",
    "exp": "Exp",
    "expm1": "Expm1",
    "log": "Log",
    "log1p": "Log1p",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "rsqrt": "Rsqrt",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
"""Names that `aten` and `prims` have alike."""
_UNARY = {
    **{
        f"{prefix}{name}.default": op_type
        for prefix in ("", "prims.")
        for name, op_type in _UNARY_OF_BOTH.items()
    },
    "erfinv.default": "Erfinv",
    "square.default": "Square",
    "special_i0e.default": "BesselI0e",
    "special_ndtri.default": "Ndtri",
    "prims.erf_inv.default": "Erfinv",
    "prims.bessel_i0e.default": "BesselI0e",
    "prims.ndtri.default": "Ndtri",
}
_POSITIVE = Sample(f32(3, 4, low=0.1, high=0.9))
_ABOVE_ONE = Sample(f32(3, 4, low=1.1, high=4))
_OF_POSITIVE = ("acos", "asin", "atanh", "log", "log1p", "rsqrt", "sqrt", "reciprocal")
_UNARY_SAMPLES = {
    **{f"prims.{name}.default": (_POSITIVE,) for name in (*_OF_POSITIVE, "erf_inv", "ndtri")},
    **{
        f"{name}.default": (_POSITIVE, Sample(f16(5, low=0.1, high=0.9)))
        for name in (*_OF_POSITIVE, "erfinv")
    },
    "acosh.default": (_ABOVE_ONE,),
    "prims.acosh.default": (_ABOVE_ONE,),
    "special_ndtri.default": (_POSITIVE,),
}
_DEFAULT_SAMPLES = (Sample(f32(3, 4)), Sample(f16(2, 3)))


def _unary(op_type: str) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        return ctx.emit(op_type, ctx.cast(self, ctx.out_dtype), shape=self.shape)

    return convert


register_rows(_UNARY, _unary, lambda o: _UNARY_SAMPLES.get(o, _DEFAULT_SAMPLES), "elementwise")

# whole numbers: integers stay as they are
_ROUNDING = {
    f"{prefix}{name}.default": op_type
    for prefix in ("", "prims.")
    for name, op_type in {"ceil": "Ceil", "floor": "Floor", "trunc": "Trunc", "round": "Round"}.items()
} | {"fix.default": "Trunc"}


def _rounding(op_type: str) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        if not self.is_float:
            return ctx.emit("Identity", self, shape=self.shape)
        return ctx.emit(op_type, self, shape=self.shape)

    return convert


register_rows(_ROUNDING, _rounding, each((Sample(f32(3, 4)), Sample(i32(3)))), "elementwise")

# two operands in the type of the result
_BINARY = {
    "maximum.default": ("Maximum", "LogicalOr"),
    "minimum.default": ("Minimum", "LogicalAnd"),
    "atan2.default": ("Atan2", None),
    "remainder.Tensor": ("FloorMod", None),
    "remainder.Scalar": ("FloorMod", None),
    "remainder.Scalar_Tensor": ("FloorMod", None),
    "fmod.Tensor": ("TruncateMod", None),
    "fmod.Scalar": ("TruncateMod", None),
    "bitwise_and.Tensor": ("BitwiseAnd", "LogicalAnd"),
    "bitwise_and.Scalar": ("BitwiseAnd", "LogicalAnd"),
    "bitwise_or.Tensor": ("BitwiseOr", "LogicalOr"),
    "bitwise_or.Scalar": ("BitwiseOr", "LogicalOr"),
    "bitwise_xor.Tensor": ("BitwiseXor", "NotEqual"),
    "bitwise_xor.Scalar": ("BitwiseXor", "NotEqual"),
    "xlogy.Tensor": ("Xlogy", None),
    "nextafter.default": ("NextAfter", None),
    "gcd.default": ("Gcd", None),
    "special_zeta.default": ("Zeta", None),
    "igamma.default": ("Igamma", None),
    "igammac.default": ("Igammac", None),
    "prims.mul.default": ("Mul", None),
    "prims.add.default": ("Add", None),
    "prims.sub.default": ("Sub", None),
    "prims.atan2.default": ("Atan2", None),
    "prims.remainder.default": ("FloorMod", None),
    "prims.fmod.default": ("TruncateMod", None),
    "prims.bitwise_and.default": ("BitwiseAnd", "LogicalAnd"),
    "prims.bitwise_or.default": ("BitwiseOr", "LogicalOr"),
    "prims.bitwise_xor.default": ("BitwiseXor", "NotEqual"),
    "prims.gcd.default": ("Gcd", None),
    "prims.igamma.default": ("Igamma", None),
    "prims.igammac.default": ("Igammac", None),
    "prims.nextafter.default": ("NextAfter", None),
    "prims.zeta.default": ("Zeta", None),
    "prims.pow.default": ("Pow", None),
    "prims.maximum.default": ("Maximum", None),
    "prims.minimum.default": ("Minimum", None),
}
_F, _B = f32(3, 4, low=0.5, high=3), f32(4, low=0.5, high=3)
_INTS = (Sample(i32(3, 4), i32(4)), Sample(i64(3), i64(3)))


def _binary_samples(overload: str) -> tuple[Sample, ...]:
    packet, _, kind = overload.rpartition(".")
    if packet.startswith("bitwise") and kind == "Scalar":
        return (Sample(i32(3, 4), 5),)
    if packet.startswith(("bitwise_and", "bitwise_or", "bitwise_xor")):
        return (*_INTS, Sample(boolean(3), boolean(3)))
    if packet == "gcd":
        return (Sample(i64(3, 4, low=1, high=30), i64(4, low=1, high=30)),)
    if packet == "special_zeta":
        return (Sample(f32(3, low=1.5, high=3), f32(3, low=1, high=3)),)
    if packet.startswith("prims.bitwise") or packet == "prims.gcd":
        return (Sample(i32(3, 4, low=1), i32(3, 4, low=1)),)
    if packet == "prims.zeta":
        return (Sample(f32(3, low=1.5, high=3), f32(3, low=1, high=3)),)
    if packet.startswith("prims."):
        return (Sample(f32(3, 4, low=0.5), f32(3, 4, low=0.5)),)
    if kind == "Scalar_Tensor":
        return (Sample(7.5, _F), Sample(7, i32(3, low=1)))
    if kind == "Scalar":
        return (Sample(_F, 1.5), Sample(i32(3, low=1), 2))
    return (Sample(_F, _B), Sample(f32(3, low=0.5), f32(2, 3, low=0.5)))


def _binary(row: tuple[str, str | None]) -> Body:
    op_type, logical = row

    def convert(ctx: Context, first: Any, second: Any) -> Any:
        dtype = ctx.out_dtype
        chosen = logical if dtype == torch.bool and logical else op_type
        return ctx.emit(chosen, *ctx.promote(first, second, dtype=dtype), dtype=dtype)

    return convert


register_rows(_BINARY, _binary, _binary_samples, "elementwise")


@converts(aten.clone.default, samples=[Sample(f32(2, 3))])
def clone(ctx: Context, self: Value, *, memory_format: Any = None) -> Value:
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return ctx.emit("TensorMove", self, shape=self.shape)


@converts(aten.positive.default, samples=[Sample(f32(2, 3))])
def positive(ctx: Context, self: Value) -> Value:
    """positive(Tensor(a) self) -> Tensor(a)"""
    return self


def _log_base(base: float) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        return ctx.emit("Log", ctx.cast(self, ctx.out_dtype), base=base, shape=self.shape)

    return convert


def _power_of_two(row: None) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        return ctx.emit("Exp", ctx.cast(self, ctx.out_dtype), base=2.0, shape=self.shape)

    return convert


_EXP2 = {"exp2.default": None, "prims.exp2.default": None}
register_rows(_EXP2, _power_of_two, each([Sample(f32(3, 4)), Sample(f16(9))]), "elementwise")
_BASES = {"log2.default": 2.0, "log10.default": 10.0, "prims.log2.default": 2.0, "prims.log10.default": 10.0}
register_rows(_BASES, _log_base, each([_POSITIVE]), "elementwise")


_SAME_WIDTH = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _is_negative(ctx: Context, value: Value) -> Value:
    """The sign of minus zero, and of NaN, is in the bits alone."""
    if value.is_bool:
        return ctx.fill(value.dims, False, torch.bool)
    if value.is_float:
        whole = _SAME_WIDTH[value.dtype.itemsize]
        value = ctx.emit("Bitcast", value, dtype=whole, shape=value.shape, type=whole)
    return ctx.emit("Less", value, ctx.const(0, value.dtype))


_SIGNS = torch.tensor([0.0, -0.0, 1.0, -1.0, float("nan"), -float("nan"), float("-inf")])


@converts(aten.signbit.default, samples=[Sample(_SIGNS), Sample(i32(5))])
def signbit(ctx: Context, self: Value) -> Value:
    """signbit(Tensor self) -> Tensor"""
    return _is_negative(ctx, self)


@converts(aten.copysign.Scalar, samples=[Sample(f32(5), -0.0), Sample(i32(5), 2)])
@converts(
    aten.copysign.Tensor, samples=[Sample(f32(7), _SIGNS), Sample(f16(5), f16(5)), Sample(i32(5), i32(5))]
)
def copysign(ctx: Context, self: Value, other: Any) -> Value:
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    size, sign = ctx.promote(self, other, dtype=ctx.out_dtype)
    positive = ctx.emit("Abs", size)
    return ctx.emit("SelectV2", _is_negative(ctx, sign), ctx.emit("Neg", positive), positive)


@converts(aten.round.decimals, samples=[Sample(f32(3, 4), decimals=1)])
def round_decimals(ctx: Context, self: Value, *, decimals: int) -> Value:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if not self.is_float:
        ctx.decompose()
    first, second = ("Mul", "RealDiv") if decimals >= 0 else ("RealDiv", "Mul")

    def shifted(x: Value, factor: Value) -> Value:
        return ctx.emit(second, ctx.emit("Round", ctx.emit(first, x, factor)), factor)

    return rounded_once(ctx, shifted, self, 10.0 ** abs(decimals), dtype=self.dtype)


@converts(aten.bitwise_not.default, samples=[Sample(i32(3)), Sample(boolean(4))])
def bitwise_not(ctx: Context, self: Value) -> Value:
    """bitwise_not(Tensor self) -> Tensor"""
    return ctx.emit("LogicalNot" if self.is_bool else "Invert", self)


@converts(aten.nan_to_num.default, samples=[Sample(f32(3, 4)), Sample(f32(3), 1.0, 2.0, 3.0), Sample(i32(3))])
def nan_to_num(
    ctx: Context,
    self: Value,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not self.is_float and not self.dtype.is_complex:
        return ctx.emit("Identity", self)
    limits = torch.finfo(self.dtype)
    attrs = {
        "nan": 0.0 if nan is None else float(nan),
        "posinf": limits.max if posinf is None else float(posinf),
        "neginf": limits.min if neginf is None else float(neginf),
    }
    attributes_must_fit(ctx, *attrs.values(), dtype=self.dtype)

    def replaced(value: Value) -> Value:
        return ctx.emit("NanToNum", value, shape=value.shape, attrs=attrs)

    return by_part(ctx, self, replaced) if self.dtype.is_complex else replaced(self)


def _clamp(ctx: Context, self: Value, low: Any, high: Any) -> Value:
    """Only fed bounds act: an absent one must not become the largest number, which would swallow infinities."""
    dtype = ctx.out_dtype
    value = ctx.cast(self, dtype)
    if low is not None and high is not None and not isinstance(low, Value) and not isinstance(high, Value):
        return ctx.emit(
            "ClipByValueV2", value, ctx.converted(low, dtype), ctx.converted(high, dtype), shape=value.shape
        )
    if low is not None:
        value = ctx.emit("Maximum", value, ctx.converted(low, dtype))
    if high is not None:
        value = ctx.emit("Minimum", value, ctx.converted(high, dtype))
    return value


@converts(aten.clamp.Tensor, samples=[Sample(f32(3, 4), f32(4), f32(3, 1)), Sample(f32(3), None, f32(3))])
@converts(
    aten.clamp.default,
    samples=[Sample(f32(3, 4), -1, 1), Sample(f32(3), None, 0.5), Sample(i32(3), 2.5, None)],
)
def clamp(ctx: Context, self: Value, min: Any = None, max: Any = None) -> Value:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamp(ctx, self, min, max)


@converts(aten.clamp_min.default, samples=[Sample(f32(3, 4), 0.5)])
def clamp_min(ctx: Context, self: Value, min: Number) -> Value:
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return _clamp(ctx, self, min, None)


@converts(aten.clamp_max.default, samples=[Sample(f32(3, 4), 0.5)])
def clamp_max(ctx: Context, self: Value, max: Number) -> Value:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return _clamp(ctx, self, None, max)
