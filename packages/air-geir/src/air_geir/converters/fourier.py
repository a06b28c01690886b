"""Fourier transforms along one axis, each repeated for several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32

aten = torch.ops.aten

_NONE, _BY_ROOT, _BY_COUNT = 0, 1, 2


def _count(value: Value, axes: Sequence[int]) -> Any:
    return math.prod(value.dims[axis] for axis in axes)


def _scaled(ctx: Context, value: Value, normalization: int, count: Any) -> Value:
    """Divided by the number of points, or its root, as torch's number for the normalisation says."""
    if normalization == _NONE:
        return value
    real = torch.float64 if value.dtype in (torch.complex128, torch.float64) else torch.float32
    number = ctx.cast(ctx.size(count), real)
    divisor = ctx.emit("Sqrt", number, shape=()) if normalization == _BY_ROOT else number
    return ctx.emit("RealDiv", value, ctx.cast(divisor, value.dtype), shape=value.shape)


def _last(ctx: Context, value: Value, axis: int) -> tuple[Value, list[int]]:
    """The value with an axis moved to the end, and the order that moves it back."""
    order = [a for a in range(value.rank) if a != axis] + [axis]
    return ctx.transpose(value, order), [order.index(a) for a in range(value.rank)]


def _along(ctx: Context, value: Value, axis: int, inverse: bool) -> Value:
    moved, back = _last(ctx, value, axis)
    done = ctx.emit("IFFT" if inverse else "FFT", moved, shape=moved.shape)
    if inverse:  # the operator divides by the number of points, torch does so separately
        done = ctx.emit("Mul", done, ctx.cast(ctx.size(moved.dims[-1]), done.dtype), shape=moved.shape)
    return ctx.transpose(done, back)


_COMPLEX = torch.complex(torch.arange(12.0).reshape(3, 4), torch.ones(3, 4))


@converts(
    aten._fft_c2c.default,
    samples=[
        Sample(_COMPLEX, [1], 0, True),
        Sample(_COMPLEX, [0, 1], 2, False),
        Sample(_COMPLEX, [0], 1, True),
    ],
)
def fft_c2c(ctx: Context, self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    axes = [self.axis(d) for d in dim]
    value = self
    for axis in axes:
        value = _along(ctx, value, axis, not forward)
    return _scaled(ctx, value, normalization, _count(self, axes))


@converts(
    aten._fft_r2c.default,
    samples=[
        Sample(f32(3, 5), [1], 0, True),
        Sample(f32(3, 4), [0, 1], 2, True),
        Sample(f32(3, 4), [1], 1, False),
    ],
)
def fft_r2c(ctx: Context, self: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    axes = [self.axis(d) for d in dim]
    value = ctx.cast(self, ctx.out_dtype)
    for axis in axes:
        value = _along(ctx, value, axis, False)
    if onesided:
        last = axes[-1]
        half = self.dims[last] // 2 + 1
        shape = tuple(half if a == last else d for a, d in enumerate(self.dims))
        value = ctx.emit("StridedSliceV2", value, [0], ctx.shape([half]), [last], [1], shape=shape)
    return _scaled(ctx, value, normalization, _count(self, axes))


@converts(
    aten._fft_c2r.default,
    samples=[Sample(_COMPLEX, [1], 2, 6), Sample(_COMPLEX, [1], 0, 7), Sample(_COMPLEX, [0, 1], 1, 6)],
)
def fft_c2r(ctx: Context, self: Value, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Value:
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    axes = [self.axis(d) for d in dim]
    value = self
    for axis in axes[:-1]:
        value = _along(ctx, value, axis, True)
    moved, back = _last(ctx, value, axes[-1])
    length = ctx.dim(last_dim_size)
    sizes = (*moved.dims[:-1], length)
    counted = ctx.cast(ctx.shape([length]), torch.int32)
    done = ctx.emit("IRFFT", moved, counted, dtype=ctx.out_dtype, shape=sizes)
    done = ctx.emit("Mul", done, ctx.cast(ctx.size(length), done.dtype), shape=sizes)
    total = _count(self, axes[:-1]) * length
    return _scaled(ctx, ctx.transpose(done, back), normalization, total)
