"""Arithmetic on elements."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_rows
from air_geir.converters._sample import Sample, boolean, f16, f32, i32, i64
from air_geir.lowering import Context, Number, Value

aten = torch.ops.aten

# one operand; the result type is the operand's, integers become the default float where torch says so
_UNARY = {
    "abs.default": "Abs",
    "acos.default": "Acos",
    "acosh.default": "Acosh",
    "asin.default": "Asin",
    "asinh.default": "Asinh",
    "atan.default": "Atan",
    "atanh.default": "Atanh",
    "cos.default": "Cos",
    "cosh.default": "Cosh",
    "erf.default": "Erf",
    "erfc.default": "Erfc",
    "erfinv.default": "Erfinv",
    "exp.default": "Exp",
    "expm1.default": "Expm1",
    "log.default": "Log",
    "log1p.default": "Log1p",
    "neg.default": "Neg",
    "reciprocal.default": "Reciprocal",
    "rsqrt.default": "Rsqrt",
    "sin.default": "Sin",
    "sinh.default": "Sinh",
    "sqrt.default": "Sqrt",
    "square.default": "Square",
    "tan.default": "Tan",
    "tanh.default": "Tanh",
    "special_i0e.default": "BesselI0e",
    **{
        f"prims.{name}.default": op_type
        for name, op_type in {
            "abs": "Abs",
            "acos": "Acos",
            "acosh": "Acosh",
            "asin": "Asin",
            "asinh": "Asinh",
            "atan": "Atan",
            "atanh": "Atanh",
            "cos": "Cos",
            "cosh": "Cosh",
            "erf": "Erf",
            "erf_inv": "Erfinv",
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
            "bessel_i0e": "BesselI0e",
            "ndtri": "Ndtri",
        }.items()
    },
    "special_ndtri.default": "Ndtri",
}
_POSITIVE = Sample(f32(3, 4, low=0.1, high=0.9))
_UNARY_SAMPLES = {
    **{
        f"prims.{name}.default": (_POSITIVE,)
        for name in (
            "acos",
            "asin",
            "atanh",
            "erf_inv",
            "log",
            "log1p",
            "rsqrt",
            "sqrt",
            "reciprocal",
            "ndtri",
        )
    },
    "prims.acosh.default": (Sample(f32(3, 4, low=1.1, high=4)),),
    "acosh.default": (Sample(f32(3, 4, low=1.1, high=4)),),
    "special_ndtri.default": (_POSITIVE,),
    **{
        f"{n}.default": (_POSITIVE, Sample(f16(5, low=0.1, high=0.9)))
        for n in (
            "acos",
            "asin",
            "atanh",
            "erfinv",
            "log",
            "log1p",
            "rsqrt",
            "sqrt",
            "reciprocal",
        )
    },
}
_DEFAULT_SAMPLES = (Sample(f32(3, 4)), Sample(f16(2, 3)))


def _unary(op_type: str) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        return ctx.emit(op_type, ctx.cast(self, ctx.out_dtype), shape=self.shape)

    return convert


register_rows(_UNARY, _unary, lambda o: _UNARY_SAMPLES.get(o, _DEFAULT_SAMPLES), "elementwise")

# whole numbers: integers stay as they are
_ROUNDING = {
    "ceil.default": "Ceil",
    "floor.default": "Floor",
    "trunc.default": "Trunc",
    "round.default": "Round",
    "fix.default": "Trunc",
    "prims.ceil.default": "Ceil",
    "prims.floor.default": "Floor",
    "prims.trunc.default": "Trunc",
    "prims.round.default": "Round",
}


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
    "mul.Tensor": ("Mul", "LogicalAnd"),
    "mul.Scalar": ("Mul", "LogicalAnd"),
    "bitwise_and.Tensor": ("BitwiseAnd", "LogicalAnd"),
    "bitwise_and.Scalar": ("BitwiseAnd", "LogicalAnd"),
    "bitwise_or.Tensor": ("BitwiseOr", "LogicalOr"),
    "bitwise_or.Scalar": ("BitwiseOr", "LogicalOr"),
    "bitwise_xor.Tensor": ("BitwiseXor", "NotEqual"),
    "bitwise_xor.Scalar": ("BitwiseXor", "NotEqual"),
    "bitwise_left_shift.Tensor": ("LeftShift", None),
    "bitwise_right_shift.Tensor": ("RightShift", None),
    "__lshift__.Tensor": ("LeftShift", None),
    "__rshift__.Tensor": ("RightShift", None),
    "xlogy.Tensor": ("Xlogy", None),
    "nextafter.default": ("NextAfter", None),
    "gcd.default": ("Gcd", None),
    "floor_divide.default": ("FloorDiv", None),
    "div.Tensor": ("RealDiv", None),
    "div.Scalar": ("RealDiv", None),
    "true_divide.Tensor": ("RealDiv", None),
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
    if "shift" in packet:
        return (Sample(i32(3, 4), i32(4, low=0, high=3)),)
    if packet == "gcd":
        return (Sample(i64(3, 4, low=1, high=30), i64(4, low=1, high=30)),)
    if packet == "special_zeta":
        return (Sample(f32(3, low=1.5, high=3), f32(3, low=1, high=3)),)
    if packet.startswith("prims.bitwise") or packet == "prims.gcd":
        return (Sample(i32(3, 4, low=1), i32(3, 4, low=1)),)
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
        left, right = ctx.promote(first, second, dtype=dtype)
        return ctx.emit(chosen, left, right, dtype=dtype)

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


def _scaled(ctx: Context, value: Value, alpha: Number) -> Value:
    if isinstance(alpha, (int, float)) and alpha == 1:
        return value
    if value.is_bool:
        return value if alpha else ctx.emit("ZerosLike", value)
    return ctx.emit("Mul", value, ctx.number(alpha, value.dtype))


def _sum(ctx: Context, first: Value, second: Value, alpha: Number) -> Value:
    added = _scaled(ctx, second, alpha)
    return ctx.emit("LogicalOr" if first.is_bool else "Add", first, added)


@converts(
    aten.add.Tensor,
    samples=[Sample(f32(2, 3), f32(3), alpha=2), Sample(i32(2), f32(2)), Sample(boolean(3), boolean(3))],
)
def add_tensor(ctx: Context, self: Value, other: Value, *, alpha: Number = 1) -> Value:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return _sum(ctx, left, right, alpha)


@converts(aten.add.Scalar, samples=[Sample(f32(2, 3), 2.5), Sample(i32(2), 3, 2)])
def add_scalar(ctx: Context, self: Value, other: Number, alpha: Number = 1) -> Value:
    """add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return _sum(ctx, left, right, alpha)


@converts(aten.sub.Tensor, samples=[Sample(f32(2, 3), f32(3), alpha=2), Sample(i32(2), f32(2))])
def sub_tensor(ctx: Context, self: Value, other: Value, *, alpha: Number = 1) -> Value:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return ctx.emit("Sub", left, _scaled(ctx, right, alpha))


@converts(aten.sub.Scalar, samples=[Sample(f32(2, 3), 2.5), Sample(i32(2), 3, 2)])
def sub_scalar(ctx: Context, self: Value, other: Number, alpha: Number = 1) -> Value:
    """sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return ctx.emit("Sub", left, _scaled(ctx, right, alpha))


@converts(aten.rsub.Tensor, samples=[Sample(f32(2, 3), f32(3), alpha=2)])
def rsub_tensor(ctx: Context, self: Value, other: Value, *, alpha: Number = 1) -> Value:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return ctx.emit("Sub", right, _scaled(ctx, left, alpha))


@converts(aten.rsub.Scalar, samples=[Sample(f32(2, 3), 2.5), Sample(i32(2), 3, 2)])
def rsub_scalar(ctx: Context, self: Value, other: Number, alpha: Number = 1) -> Value:
    """rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    left, right = ctx.promote(self, other, dtype=ctx.out_dtype)
    return ctx.emit("Sub", right, _scaled(ctx, left, alpha))


def _divide(ctx: Context, first: Any, second: Any, rounding_mode: str | None) -> Value:
    dtype = ctx.out_dtype
    left, right = ctx.promote(first, second, dtype=dtype)
    if rounding_mode is None:
        return ctx.emit("RealDiv", left, right)
    if rounding_mode == "floor":
        return ctx.emit("FloorDiv", left, right)
    if dtype.is_floating_point:
        quotient = ctx.emit("RealDiv", left, right)
        return ctx.emit("Trunc", quotient)
    return ctx.emit("TruncateDiv", left, right)


_MODES = [
    Sample(f32(3, 4, low=-9, high=9), f32(4, low=1, high=3), rounding_mode="trunc"),
    Sample(f32(3, 4, low=-9, high=9), f32(4, low=1, high=3), rounding_mode="floor"),
    Sample(i64(3, 4), i64(4, low=1, high=4), rounding_mode="trunc"),
    Sample(i64(3, 4), i64(4, low=1, high=4), rounding_mode="floor"),
    Sample(i64(3), i64(3, low=1), rounding_mode=None),
]


@converts(aten.div.Tensor_mode, samples=_MODES)
def div_mode(ctx: Context, self: Value, other: Value, *, rounding_mode: str | None) -> Value:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    return _divide(ctx, self, other, rounding_mode)


def _prims_div(row: None) -> Body:
    def convert(ctx: Context, first: Value, second: Value) -> Any:
        whole = not first.is_float and not first.dtype.is_complex
        return ctx.emit("TruncateDiv" if whole else "RealDiv", first, second)

    return convert


_QUOTIENTS = [Sample(f32(3), f32(3, low=1)), Sample(i32(3), i32(3, low=1))]
register_rows({"prims.div.default": None}, _prims_div, each(_QUOTIENTS), "elementwise")


@converts(
    "aten._conj.default",
    "aten._conj_physical.default",
    samples=[Sample(torch.complex(torch.ones(3), torch.ones(3)))],
)
def conj(ctx: Context, self: Value) -> Value:
    """_conj(Tensor(a) self) -> Tensor(a)"""
    return ctx.emit("Conj", self)


@converts(aten.div.Scalar_mode, samples=[Sample(f32(4, low=-9, high=9), 2.5, rounding_mode="trunc")])
def div_scalar_mode(ctx: Context, self: Value, other: Number, *, rounding_mode: str | None) -> Value:
    """div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"""
    return _divide(ctx, self, other, rounding_mode)


def _power(ctx: Context, base: Any, exponent: Any) -> Value:
    left, right = ctx.promote(base, exponent, dtype=ctx.out_dtype)
    return ctx.emit("Pow", left, right)


@converts(
    aten.pow.Tensor_Tensor,
    samples=[Sample(f32(3, 4, low=0.1), f32(4)), Sample(i64(3), i64(3, low=0, high=3))],
)
def pow_tensor(ctx: Context, self: Value, exponent: Value) -> Value:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    return _power(ctx, self, exponent)


@converts(
    aten.pow.Tensor_Scalar,
    samples=[Sample(f32(3), 2), Sample(f32(3, low=0.1), 0.5), Sample(i64(3), 3), Sample(f32(3), 3)],
)
def pow_scalar(ctx: Context, self: Value, exponent: Number) -> Value:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    if isinstance(exponent, (int, float)) and exponent == 2 and not self.is_bool:
        return ctx.emit("Square", ctx.cast(self, ctx.out_dtype))
    return _power(ctx, self, exponent)


@converts(aten.pow.Scalar, samples=[Sample(2.5, f32(3)), Sample(2, i64(3, low=0, high=4))])
def pow_base(ctx: Context, self: Number, exponent: Value) -> Value:
    """pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    return _power(ctx, self, exponent)


def _log_base(base: float) -> Body:
    def convert(ctx: Context, self: Value) -> Any:
        return ctx.emit("Log", ctx.cast(self, ctx.out_dtype), base=base, shape=self.shape)

    return convert


register_rows({"log2.default": 2.0, "log10.default": 10.0}, _log_base, each([_POSITIVE]), "elementwise")


@converts(aten.round.decimals, samples=[Sample(f32(3, 4), decimals=1)])
def round_decimals(ctx: Context, self: Value, *, decimals: int) -> Value:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    factor = ctx.const(10.0 ** abs(decimals), self.dtype)
    first, second = ("Mul", "RealDiv") if decimals >= 0 else ("RealDiv", "Mul")
    return ctx.emit(second, ctx.emit("Round", ctx.emit(first, self, factor)), factor)


@converts(aten.sign.default, aten.sgn.default, samples=[Sample(f32(3, 4)), Sample(i32(3))])
def sign(ctx: Context, self: Value) -> Value:
    """sign(Tensor self) -> Tensor"""
    if self.is_bool:
        return ctx.emit("Identity", self)
    if self.dtype.is_complex:
        ctx.refuse("the sign of complex numbers has no operator")
    return ctx.emit("Sign", self)


@converts(aten.bitwise_not.default, samples=[Sample(i32(3)), Sample(boolean(4))])
def bitwise_not(ctx: Context, self: Value) -> Value:
    """bitwise_not(Tensor self) -> Tensor"""
    return ctx.emit("LogicalNot" if self.is_bool else "Invert", self)


@converts(aten.addcmul.default, samples=[Sample(f32(3, 4), f32(4), f32(3, 1), value=0.5)])
def addcmul(ctx: Context, self: Value, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Value:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return ctx.emit("Addcmul", *ctx.promote(self, tensor1, tensor2, value, dtype=ctx.out_dtype))


@converts(aten.addcdiv.default, samples=[Sample(f32(3, 4), f32(4), f32(3, 1, low=0.5), value=0.5)])
def addcdiv(ctx: Context, self: Value, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Value:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return ctx.emit("Addcdiv", *ctx.promote(self, tensor1, tensor2, value, dtype=ctx.out_dtype))


@converts(aten.lerp.Scalar, samples=[Sample(f32(3, 4), f32(4), 0.3)])
def lerp_scalar(ctx: Context, self: Value, end: Value, weight: Number) -> Value:
    """lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    return ctx.emit("Lerp", *ctx.promote(self, end, weight, dtype=ctx.out_dtype))


@converts(aten.lerp.Tensor, samples=[Sample(f32(3, 4), f32(4), f32(3, 1))])
def lerp_tensor(ctx: Context, self: Value, end: Value, weight: Value) -> Value:
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    return ctx.emit("Lerp", *ctx.promote(self, end, weight, dtype=ctx.out_dtype))


@converts(aten.nan_to_num.default, samples=[Sample(f32(3, 4)), Sample(f32(3), 1.0, 2.0, 3.0), Sample(i32(3))])
def nan_to_num(
    ctx: Context,
    self: Value,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not self.is_float:
        return ctx.emit("Identity", self)
    limits = torch.finfo(self.dtype)
    return ctx.emit(
        "NanToNum",
        self,
        shape=self.shape,
        nan=0.0 if nan is None else float(nan),
        posinf=limits.max if posinf is None else float(posinf),
        neginf=limits.min if neginf is None else float(neginf),
    )


def _clamp(ctx: Context, self: Value, low: Any, high: Any) -> Value:
    """Only fed bounds act: an absent one must not become the largest number, which would swallow infinities."""
    dtype = ctx.out_dtype
    value = ctx.cast(self, dtype)
    if low is not None and high is not None and not isinstance(low, Value) and not isinstance(high, Value):
        return ctx.emit(
            "ClipByValueV2", value, ctx.number(low, dtype), ctx.number(high, dtype), shape=value.shape
        )
    if low is not None:
        value = ctx.emit("Maximum", value, ctx.number(low, dtype))
    if high is not None:
        value = ctx.emit("Minimum", value, ctx.number(high, dtype))
    return value


@converts(
    aten.clamp.default,
    samples=[Sample(f32(3, 4), -1, 1), Sample(f32(3), None, 0.5), Sample(i32(3), 2.5, None)],
)
def clamp(ctx: Context, self: Value, min: Number | None = None, max: Number | None = None) -> Value:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamp(ctx, self, min, max)


@converts(aten.clamp.Tensor, samples=[Sample(f32(3, 4), f32(4), f32(3, 1)), Sample(f32(3), None, f32(3))])
def clamp_tensor(ctx: Context, self: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return _clamp(ctx, self, min, max)


@converts(aten.clamp_min.default, samples=[Sample(f32(3, 4), 0.5)])
def clamp_min(ctx: Context, self: Value, min: Number) -> Value:
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return _clamp(ctx, self, min, None)


@converts(aten.clamp_max.default, samples=[Sample(f32(3, 4), 0.5)])
def clamp_max(ctx: Context, self: Value, max: Number) -> Value:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return _clamp(ctx, self, None, max)


@converts(aten.view_as_real.default, samples=[Sample(torch.complex(torch.ones(2, 3), torch.zeros(2, 3)))])
def view_as_real(ctx: Context, self: Value) -> Value:
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    dtype = ctx.out_dtype
    parts = [ctx.emit(t, self, dtype=dtype, shape=self.shape, Tout=dtype) for t in ("Real", "Imag")]
    return ctx.emit("Pack", parts, axis=-1, N=2)


@converts(aten.complex.default, samples=[Sample(f32(3), f32(3))])
def complex_(ctx: Context, real: Value, imag: Value) -> Value:
    """complex(Tensor real, Tensor imag) -> Tensor"""
    return ctx.emit("Complex", real, imag, dtype=ctx.out_dtype, Tout=ctx.out_dtype)


@converts(aten.view_as_complex.default, samples=[Sample(f32(3, 2))])
def view_as_complex(ctx: Context, self: Value) -> Value:
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    real, imaginary = ctx.emit_many("Unpack", self, num=2, axis=-1, num_outputs=2)
    return ctx.emit("Complex", real, imaginary, dtype=ctx.out_dtype, Tout=ctx.out_dtype)
