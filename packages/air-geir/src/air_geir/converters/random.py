"""Random numbers: the seed and the offset are read when the graph runs, so reseeding has its effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Number, Size, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_rows

aten = torch.ops.aten

_PHILOX = 1
_DRAWN_BITS = 24
"""The random bits of a number of float32."""
_DRAWN = (torch.float32, torch.float16, torch.bfloat16)


def _draw(ctx: Context, op_type: str, shape: Sequence[Size], dtype: torch.dtype) -> Value:
    """A tensor of random numbers; types the operator does not draw are cast from float32."""
    seed, offset = ctx.random_state(shape)
    key = ctx.cast(seed, torch.uint64)
    zero = ctx.const([0], torch.int64)
    counter = ctx.emit("ConcatV2", [zero, offset], ctx.const(0, torch.int64), N=2, shape=(2,))
    drawn = dtype if dtype in _DRAWN else torch.float32
    sizes = tuple(ctx.dim(s) for s in shape)
    value = ctx.emit(
        op_type, ctx.shape(sizes), key, ctx.cast(counter, torch.uint64), ctx.const(_PHILOX, torch.int32),
        dtype=drawn, shape=sizes, attrs={"dtype": drawn},
    )  # fmt: skip
    return ctx.cast(value, dtype)


def uniform(ctx: Context, shape: Sequence[Size], dtype: torch.dtype) -> Value:
    """Uniform in [0, 1); in double precision one draw gives the leading digits, another those behind."""
    if dtype != torch.float64:
        return _draw(ctx, "StatelessRandomUniformV2", shape, dtype)
    leading = ctx.cast(_bits(ctx, shape, _DRAWN_BITS), dtype)
    digits = ctx.emit("Add", leading, ctx.cast(uniform(ctx, shape, torch.float32), dtype))
    return ctx.emit("Mul", digits, ctx.const(2.0**-_DRAWN_BITS, dtype))


def _bits(ctx: Context, shape: Sequence[Size], count: int) -> Value:
    """Whole numbers of that many random bits, in float32."""
    drawn = uniform(ctx, shape, torch.float32)
    return ctx.emit("Floor", ctx.emit("Mul", drawn, ctx.const(2.0**count, torch.float32)))


def normal(ctx: Context, shape: Sequence[Size], dtype: torch.dtype) -> Value:
    """Standard normal; in double precision of two uniform draws, a length and a direction (Box and Muller)."""
    if dtype != torch.float64:
        return _draw(ctx, "StatelessRandomNormalV2", shape, dtype)
    rest = ctx.emit("Sub", ctx.const(1, dtype), uniform(ctx, shape, dtype))
    length = ctx.emit("Sqrt", ctx.emit("Mul", ctx.emit("Log", rest), ctx.const(-2, dtype)))
    direction = ctx.emit("Mul", uniform(ctx, shape, dtype), ctx.const(2 * math.pi, dtype))
    return ctx.emit("Mul", length, ctx.emit("Cos", direction))


_SHAPED = {
    "rand.default": uniform,
    "rand.generator": uniform,
    "rand_like.default": uniform,
    "randn.default": normal,
    "randn.generator": normal,
    "randn_like.default": normal,
}


register_rows(
    _SHAPED, lambda draw: lambda ctx, *args: draw(ctx, ctx.out_shape, ctx.out_dtype), each(()), "random"
)


def _below(ctx: Context, shape: Sequence[Size], probability: float | Value) -> Value:
    """True with that probability."""
    bound = ctx.number(probability, torch.float32)
    return ctx.emit("Less", uniform(ctx, shape, torch.float32), bound, shape=tuple(ctx.dim(s) for s in shape))


@converts(aten.bernoulli.p, aten.bernoulli.Tensor)
def bernoulli_p(ctx: Context, self: Value, p: float | Value = 0.5, *, generator: Any = None) -> Value:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return ctx.cast(_below(ctx, self.dims, p), ctx.out_dtype)


@converts(aten.bernoulli.default)
def bernoulli(ctx: Context, self: Value, *, generator: Any = None) -> Value:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    return ctx.cast(_below(ctx, self.dims, self), ctx.out_dtype)


@converts(aten.native_dropout.default)
def native_dropout(ctx: Context, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if train is False or p == 0:
        return ctx.emit("TensorMove", input), ctx.fill(input.dims, True, torch.bool)
    kept = _below(ctx, input.dims, 1 - p)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    scaled = ctx.emit("Mul", input, ctx.const(scale, input.dtype), shape=input.shape)
    return ctx.emit("Mul", scaled, ctx.cast(kept, input.dtype), shape=input.shape), kept


@converts(aten.uniform.default)
def uniform_between(
    ctx: Context, self: Value, from_: Any = 0, to: Any = 1, *, generator: Any = None
) -> Value:
    """uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    wide = working_dtype(self.dtype)
    drawn = uniform(ctx, self.dims, wide)
    scaled = ctx.emit("Mul", drawn, ctx.number(to - from_, wide), shape=self.shape)
    moved = ctx.emit("Add", scaled, ctx.number(from_, wide), shape=self.shape)
    if isinstance(from_, (int, float)) and isinstance(to, (int, float)):
        moved = ctx.emit("Minimum", moved, ctx.const(_last(from_, to, self.dtype), wide), shape=self.shape)
    return ctx.cast(moved, self.dtype)


def _last(low: float, high: float, dtype: torch.dtype) -> float:
    """The largest number of the type below the upper bound, which sums are rounded to otherwise."""
    first, end = torch.tensor([low, high], dtype=dtype)
    return float(torch.maximum(first, torch.nextafter(end, first)))


def _normal(ctx: Context, shape: Sequence[Size], mean: Any, std: Any, dtype: torch.dtype) -> Value:
    """Normal with that mean and deviation; half precision is rounded once."""
    if dtype.is_complex:
        ctx.refuse("random complex numbers have no operator", "draw real and imaginary part separately")
    wide = working_dtype(dtype)
    scaled = ctx.emit("Mul", normal(ctx, shape, wide), ctx.number(std, wide))
    return ctx.cast(ctx.emit("Add", scaled, ctx.number(mean, wide)), dtype)


@converts(aten.normal_functional.default)
def normal_functional(
    ctx: Context, self: Value, mean: float = 0, std: float = 1, *, generator: Any = None
) -> Value:
    """normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return _normal(ctx, self.dims, mean, std, self.dtype)


@converts(torch.ops.prims.normal.default)
def prims_normal(
    ctx: Context, shape: Sequence[Size], *, mean: Any, std: Any, dtype: torch.dtype, device: Any = None,
    requires_grad: bool = False, generator: Any = None,
) -> Value:  # fmt: skip
    """normal(SymInt[] shape, *, Scalar mean, Scalar std, ScalarType dtype, Device device, bool requires_grad, Generator? generator=None) -> Tensor"""  # noqa: E501
    return _normal(ctx, shape, mean, std, dtype)


@converts(aten.exponential.default)
def exponential(ctx: Context, self: Value, lambd: float = 1, *, generator: Any = None) -> Value:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor

    Never zero, as in eager: its logarithm is taken (`gumbel_softmax`).
    """
    wide = working_dtype(self.dtype)
    rest = ctx.emit("Sub", ctx.const(1, wide), uniform(ctx, self.dims, wide), shape=self.shape)
    least = ctx.const(torch.finfo(wide).eps / 2, wide)
    drawn = ctx.emit("Maximum", ctx.emit("Neg", ctx.emit("Log", rest)), least, shape=self.shape)
    return ctx.cast(ctx.emit("Mul", drawn, ctx.const(1 / lambd, wide), shape=self.shape), self.dtype)


def _integers(ctx: Context, low: Number, high: Number) -> Value:
    """low + something below high - low: from one draw if its bits suffice, else from 63 bits as eager does it."""
    count = high - low if isinstance(low, int) and isinstance(high, int) else None
    if count is not None and not 0 < count < 2**63:
        ctx.refuse(f"there are {count} numbers to draw from", "give bounds less than 2**63 apart")
    span = ctx.emit("Sub", ctx.number(high, torch.int64), ctx.number(low, torch.int64), shape=())
    if count is not None and count <= 2**_DRAWN_BITS:
        places = _place(ctx, span)
    else:
        places = ctx.emit("FloorMod", _long(ctx), span, shape=ctx.out_shape)
    moved = ctx.emit("Add", places, ctx.number(low, torch.int64), shape=ctx.out_shape)
    return ctx.cast(moved, ctx.out_dtype)


def _place(ctx: Context, span: Value) -> Value:
    """floor(u * span), in double, in which the product is exact."""
    drawn = ctx.cast(uniform(ctx, ctx.out_shape, torch.float32), torch.float64)
    scaled = ctx.emit("Mul", drawn, ctx.cast(span, torch.float64), shape=ctx.out_shape)
    return ctx.cast(ctx.emit("Floor", scaled, shape=ctx.out_shape), torch.int64)


def _long(ctx: Context) -> Value:
    """Whole numbers of 63 random bits."""
    result = ctx.cast(_bits(ctx, ctx.out_shape, _DRAWN_BITS), torch.int64)
    for count in (_DRAWN_BITS, 63 - 2 * _DRAWN_BITS):
        shifted = ctx.emit("Mul", result, ctx.const(2**count, torch.int64))
        result = ctx.emit("Add", shifted, ctx.cast(_bits(ctx, ctx.out_shape, count), torch.int64))
    return result


def _randint(places: tuple[int | None, int]) -> Body:
    """`places`: which arguments are the lower bound, if one is, and the upper one."""
    low, high = places
    return lambda ctx, *args: _integers(ctx, 0 if low is None else args[low], args[high])


_RANDINT = {
    "randint.default": (None, 0), "randint.low": (0, 1), "randint_like.default": (None, 1),
    "randint_like.low_dtype": (1, 2),
}  # fmt: skip
register_rows(_RANDINT, _randint, each(()), "random")


@converts(aten.randperm.default)
def randperm(
    ctx: Context, n: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Value:
    """randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    seed, offset = ctx.random_state([n])
    return ctx.emit(
        "StatelessRandperm", ctx.size(n), seed, offset, dtype=ctx.out_dtype, attrs={"dtype": ctx.out_dtype}
    )


@converts(aten.multinomial.default)
def multinomial(
    ctx: Context, self: Value, num_samples: Any, replacement: bool = False, *, generator: Any = None
) -> Value:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    seed, offset = ctx.random_state(ctx.out_shape)
    return ctx.emit(
        "MultinomialWithReplacement", self, seed, offset, numsamples=num_samples, replacement=replacement,
        dtype=torch.int64,
    )  # fmt: skip
