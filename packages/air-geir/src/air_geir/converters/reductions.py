"""Sums, extremes and other reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_rows
from air_geir.converters._sample import Sample, boolean, c64, f16, f32, f64, i32, i64, u8
from air_geir.converters.comparison import as_bool
from air_geir.converters.complex_numbers import joined, length, parts

aten = torch.ops.aten


def axes_of(value: Value, dim: Any, literal: bool = False) -> list[int]:
    """The axes a reduction names: all of them when it names none. `any` and `all` take an empty list at its word."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim and not literal):
        return list(range(value.rank))
    return [value.axis(d) for d in (dim if isinstance(dim, (list, tuple)) else [dim])] if value.rank else []


def reduced(value: Value, axes: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    """The shape that is left."""
    if keepdim:
        return tuple(1 if a in axes else d for a, d in enumerate(value.dims))
    return tuple(d for a, d in enumerate(value.dims) if a not in axes)


def reduce(ctx: Context, op_type: str, value: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
    """The reduction over these axes; over none it is the value itself."""
    if not axes:
        return ctx.emit("Identity", value, shape=value.shape)
    shape = reduced(value, axes, keepdim)
    return ctx.emit(op_type, value, list(axes), keep_dims=keepdim, shape=shape)


# overload -> (operator type, position of dim or None, position of keepdim or None)
_REDUCTIONS = {
    "sum.default": ("ReduceSum", None, None),
    "sum.dim_IntList": ("ReduceSum", 1, 2),
    "mean.default": ("ReduceMean", None, None),
    "mean.dim": ("ReduceMean", 1, 2),
    "amax.default": ("ReduceMax", 1, 2),
    "amin.default": ("ReduceMin", 1, 2),
    "max.default": ("ReduceMax", None, None),
    "min.default": ("ReduceMin", None, None),
    "prod.default": ("ReduceProd", None, None),
    "prod.dim_int": ("ReduceProd", 1, 2),
    "any.default": ("ReduceAny", None, None),
    "any.dim": ("ReduceAny", 1, 2),
    "any.dims": ("ReduceAny", 1, 2),
    "all.default": ("ReduceAll", None, None),
    "all.dim": ("ReduceAll", 1, 2),
    "all.dims": ("ReduceAll", 1, 2),
    "logsumexp.default": ("ReduceLogSumExp", 1, 2),
}


def _reduction(row: tuple[str, int | None, int | None]) -> Body:
    op_type, dim_at, keep_at = row

    def convert(ctx: Context, *args: Any) -> Any:
        self: Value = args[0]
        logical = op_type in ("ReduceAny", "ReduceAll")
        if logical:
            value = as_bool(ctx, self)
        else:
            value = ctx.cast(self, ctx.out_dtype)
        if value.is_bool and op_type in ("ReduceMax", "ReduceMin"):
            chosen = "ReduceAny" if op_type == "ReduceMax" else "ReduceAll"
        else:
            chosen = op_type
        axes = axes_of(self, args[dim_at] if dim_at is not None else None, logical)
        if not axes:
            if op_type == "ReduceLogSumExp" and value.dtype.is_complex:
                ctx.refuse(
                    "the logarithm of the exponential of one complex number is another", "reduce an axis"
                )
            result = ctx.emit("TensorMove" if value is self else "Identity", value)
        else:
            result = reduce(ctx, chosen, value, axes, bool(args[keep_at]) if keep_at is not None else False)
        return ctx.cast(result, ctx.out_dtype)  # `any` and `all` of uint8 give uint8

    return convert


def _samples(overload: str) -> tuple[Sample, ...]:
    packet, _, kind = overload.partition(".")
    kinds = [boolean, i32] if packet in ("any", "all") else [f32, f16]
    if packet == "prod":
        return (
            (Sample(f32(2, 3)),) if kind == "default" else (Sample(f32(2, 3), 1, True), Sample(i64(2, 3), 0))
        )
    if kind == "default" and packet not in ("amax", "amin", "logsumexp"):
        extra = {"sum": (Sample(i32(2, 3)),), "any": (Sample(u8()),), "all": (Sample(u8()),)}.get(packet, ())
        return (Sample(kinds[0](2, 3)), Sample(kinds[0]()), *extra)
    dim: Any = 1 if kind == "dim" and packet in ("any", "all") else [0, -1]
    return (
        Sample(kinds[0](2, 3, 4), dim),
        Sample(kinds[0](2, 3), dim if isinstance(dim, int) else [1], True),
    )


register_rows(_REDUCTIONS, _reduction, _samples, "reductions")


def _extreme(ctx: Context, op_type: str, self: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """Largest or smallest value and its place along an axis."""
    if not self.rank:
        return ctx.emit("TensorMove", self), ctx.fill((), 0, torch.int64)
    value = ctx.cast(self, torch.int32) if self.is_bool else self
    shape = reduced(self, [self.axis(dim)], keepdim)
    places, values = ctx.emit_many(
        op_type, value, dimension=self.axis(dim), keep_dims=keepdim,
        dtype=[torch.int32, value.dtype], shape=[shape, shape],
    )  # fmt: skip
    best = as_bool(ctx, values) if self.is_bool else values
    return best, ctx.cast(places, torch.int64)


register_rows(
    {"max.dim": "ArgMaxWithValue", "min.dim": "ArgMinWithValue"},
    lambda op_type: lambda ctx, *args: _extreme(ctx, op_type, *args),
    each([Sample(f32(3, 4), 1), Sample(i64(3, 4), 0, True)]),
    "reductions",
)


def _place(ctx: Context, op_type: str, self: Value, dim: int | None, keepdim: bool) -> Value:
    """The place in the type of the input: no detour through a narrower one."""
    if not self.rank:
        return ctx.fill((), 0, torch.int64)
    value = ctx.cast(self, torch.int32) if self.is_bool else self
    axis = 0 if dim is None else self.axis(dim)
    if dim is None:
        value = ctx.reshape(value, (math.prod(self.dims),))
    shape = () if dim is None else reduced(self, [axis], False)
    found = ctx.emit(op_type, value, ctx.const(axis, torch.int64), dtype=torch.int64, shape=shape)
    return ctx.reshape(found, ctx.out_shape) if keepdim else found


_ARG_SAMPLES = [
    Sample(f32(3, 4)),
    Sample(f32(3, 4), None, True),
    Sample(f64(3, 4), 1, True),
    Sample(torch.tensor([2**24, 2**24 + 1, 3], dtype=torch.int64), 0, True),
]


register_rows(
    {"argmax.default": "ArgMaxV2", "argmin.default": "ArgMin"},
    lambda op_type: lambda ctx, *args: _place(ctx, op_type, *args),
    each(_ARG_SAMPLES),
    "reductions",
)


def variance(
    ctx: Context, self: Value, dim: Any, correction: Number | None, keepdim: bool
) -> tuple[Value, Value]:
    """Variance and mean over the axes; the variance of complex numbers is that of both their parts."""
    if not self.dtype.is_complex:
        dtype = working_dtype(self.dtype)
        spread, mean = _moments(ctx, ctx.cast(self, dtype), dim, correction, keepdim)
        return ctx.cast(spread, self.dtype), ctx.cast(mean, self.dtype)
    moments = [_moments(ctx, part, dim, correction, keepdim) for part in parts(ctx, self)]
    (first, real), (second, imaginary) = moments
    return ctx.emit("Add", first, second), joined(ctx, real, imaginary)


def _count(value: Value, axes: Sequence[int]) -> Any:
    return math.prod(value.dims[axis] for axis in axes)


def _freedom(ctx: Context, count: Any, correction: Number | None, dtype: torch.dtype) -> Value:
    """How many values there are beside those that are taken off, at least none."""
    correction = 1 if correction is None else correction
    if isinstance(count, int) and isinstance(correction, (int, float)):
        return ctx.const(max(0, count - correction), dtype)
    taken = ctx.emit("Sub", ctx.number(ctx.size(count), dtype), ctx.number(correction, dtype))
    return ctx.emit("Maximum", taken, ctx.const(0, dtype))


def _moments(
    ctx: Context, value: Value, dim: Any, correction: Number | None, keepdim: bool
) -> tuple[Value, Value]:
    axes = axes_of(value, dim)
    mean = reduce(ctx, "ReduceMean", value, axes, True)
    deviation = ctx.emit("SquaredDifference", value, mean, shape=value.shape)
    total = reduce(ctx, "ReduceSum", deviation, axes, keepdim)
    freedom = _freedom(ctx, _count(value, axes), correction, value.dtype)
    result = ctx.emit("RealDiv", total, freedom, shape=total.shape)
    return result, mean if keepdim else ctx.reshape(mean, total.dims)


_VAR = [
    Sample(f32(3, 4), [1]),
    Sample(f16(3, 40), [1]),
    Sample(c64(3, 4), [1]),
    Sample(f32(3, 4), [0, 1], correction=0, keepdim=True),
    Sample(f32(3, 4)),
]


@converts(aten.var.correction, samples=_VAR)
def var(
    ctx: Context, self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return variance(ctx, self, dim, correction, keepdim)[0]


@converts(aten.var.dim, samples=[Sample(f32(3, 4), [1]), Sample(f32(3, 4), [0], False, True)])
def var_dim(ctx: Context, self: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    """var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return variance(ctx, self, dim, 1 if unbiased else 0, keepdim)[0]


@converts(aten.var_mean.correction, samples=_VAR)
def var_mean(
    ctx: Context, self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""  # noqa: E501
    return variance(ctx, self, dim, correction, keepdim)


@converts(aten.std.correction, samples=_VAR)
def std(
    ctx: Context, self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    dtype = working_dtype(self.dtype)
    if dtype == torch.float32:
        return ctx.cast(_deviation(ctx, ctx.cast(self, dtype), dim, correction, keepdim), ctx.out_dtype)
    return ctx.emit("Sqrt", variance(ctx, self, dim, correction, keepdim)[0])


def _deviation(ctx: Context, value: Value, dim: Any, correction: Number | None, keepdim: bool) -> Value:
    """Measured by the sum of the deviations, which is finite where their squares overflow, or vanish."""
    axes = axes_of(value, dim)
    mean = reduce(ctx, "ReduceMean", value, axes, True)
    apart = ctx.emit("Sub", value, mean, shape=value.shape)
    total = reduce(ctx, "ReduceSum", ctx.emit("Abs", apart, shape=value.shape), axes, True)
    limits = torch.finfo(value.dtype)
    bounds = (ctx.const(limits.tiny, value.dtype), ctx.const(limits.max, value.dtype))
    unit = ctx.emit("ClipByValueV2", total, *bounds, shape=total.shape)
    share = ctx.emit("RealDiv", apart, unit, shape=value.shape)
    squares = reduce(ctx, "ReduceSum", ctx.emit("Square", share, shape=value.shape), axes, keepdim)
    freedom = _freedom(ctx, _count(value, axes), correction, value.dtype)
    spread = ctx.emit("Sqrt", ctx.emit("RealDiv", squares, freedom, shape=squares.shape), shape=squares.shape)
    return ctx.emit("Mul", spread, ctx.reshape(unit, squares.dims), shape=squares.shape)


@converts(
    aten.linalg_vector_norm.default,
    samples=[Sample(f32(3, 4)), Sample(f32(3, 4), 1, [1], True), Sample(c64(3, 4), float("inf"), [0])],
)
def vector_norm(
    ctx: Context, self: Value, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""  # noqa: E501
    value = ctx.cast(length(ctx, self) if self.dtype.is_complex else self, ctx.out_dtype)
    return norm(ctx, value, float(ord), axes_of(self, dim), keepdim)


def norm(ctx: Context, value: Value, p: float, axes: Sequence[int], keepdim: bool = False) -> Value:
    """A norm over axes. Chips spell infinity in two ways, and by default add something to a sum that is zero."""
    if math.isinf(p):
        return reduce(ctx, "ReduceMax" if p > 0 else "ReduceMin", ctx.emit("Abs", value), axes, keepdim)
    return ctx.emit("LpNormV2", value, p=p, axes=axes, keepdim=keepdim, epsilon=0.0)


def _running(op_type: str) -> Body:
    def convert(ctx: Context, self: Value, dim: int, dtype: Any) -> Value:
        value = ctx.cast(self, ctx.out_dtype)
        return ctx.emit(op_type, value, ctx.const(self.axis(dim), torch.int64)) if self.rank else value

    return convert


_RUNNING_SAMPLES = {"cumsum.default": (Sample(f32(3, 4), 1), Sample(i32(4), 0), Sample(boolean(4), 0))}
register_rows(
    {"cumsum.default": "Cumsum", "cumprod.default": "Cumprod"},
    _running,
    lambda overload: _RUNNING_SAMPLES.get(overload, (Sample(f32(3, 4), 1),)),
    "reductions",
)


def _running_extreme(row: tuple[str, str]) -> Body:
    """Along the first axis, as the engine's own callers do it; places are int32 there."""
    op_type, attribute = row

    def convert(ctx: Context, self: Value, dim: int) -> tuple[Value, ...]:
        if not self.rank:
            return ctx.emit("TensorMove", self), ctx.fill((), 0, torch.int64)
        axis = self.axis(dim)
        swapped = list(range(self.rank))
        swapped[0], swapped[axis] = axis, 0
        first = ctx.transpose(self, swapped)
        found = ctx.emit_many(
            op_type, first, attrs={attribute: 0}, dtype=[self.dtype, torch.int32], shape=[first.shape] * 2
        )
        values, places = (ctx.transpose(each, swapped) for each in found)
        return values, ctx.cast(places, torch.int64)

    return convert


register_rows(
    {"cummax.default": ("Cummax", "dim"), "cummin.default": ("Cummin", "axis")},
    _running_extreme,
    each([Sample(f32(3, 4), 1)]),
    "reductions",
)


@converts(aten.logcumsumexp.default, samples=[Sample(f32(3, 4), 1)])
def logcumsumexp(ctx: Context, self: Value, dim: int) -> Value:
    """logcumsumexp(Tensor self, int dim) -> Tensor"""
    if not self.rank:
        return ctx.emit("TensorMove", self)
    return ctx.emit("CumulativeLogsumexp", self, ctx.const(self.axis(dim), torch.int64))
