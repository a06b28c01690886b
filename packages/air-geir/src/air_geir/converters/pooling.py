"""Pooling windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, f32
from air_geir.ir import Format

aten = torch.ops.aten

_LAYOUT = {2: Format.NCHW, 3: Format.NCDHW}
_INT64 = 9
"""Number of int64 in the attribute that chooses the type of pooling indices."""


def _each(values: Any, axes: int, default: Sequence[int] = ()) -> list[int]:
    numbers = [values] if isinstance(values, int) else list(values)
    numbers = numbers or list(default)
    return numbers * axes if len(numbers) == 1 else numbers


def _batched(ctx: Context, value: Value, axes: int) -> Value:
    """With an axis for the batch."""
    if value.rank == axes + 2:
        return value
    return ctx.emit("Unsqueeze", value, axes=[0], shape=(1, *value.dims))


def _unbatched(ctx: Context, value: Value, like: Value, axes: int) -> Value:
    if like.rank == axes + 2:
        return value
    return ctx.emit("Squeeze", value, axis=[0])


def _pads(padding: Sequence[int]) -> list[int]:
    return [p for amount in padding for p in (amount, amount)]


def _average_attrs(
    axes: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    include: bool,
    divisor: int | None,
) -> dict[str, object]:
    size = _each(kernel_size, axes)
    common: dict[str, object] = {
        "ksize": [1, 1, *size],
        "strides": [1, 1, *_each(stride, axes, size)],
        "pads": _pads(_each(padding, axes)),
        "ceil_mode": ceil_mode,
        "divisor_override": divisor or 0,
        "data_format": _LAYOUT[axes].name,
    }
    return {**common, **({"exclusive": not include} if axes == 2 else {"count_include_pad": include})}


def _average(axes: int) -> Body:
    def convert(ctx: Context, self: Value, *settings: Any) -> Value:
        attrs = _average_attrs(axes, *settings)
        y = ctx.emit("AvgPoolV2" if axes == 2 else "AvgPool3D", _batched(ctx, self, axes), attrs=attrs)
        ctx.layout(y, _LAYOUT[axes])
        return _unbatched(ctx, y, self, axes)

    return convert


_AVERAGE_SAMPLES = {
    "avg_pool2d.default": [
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1]),
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, False),
        Sample(f32(3, 7, 7), [3, 2], [], [1, 0], True),
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, True, 4),
    ],
    "avg_pool3d.default": [Sample(f32(2, 3, 5, 5, 5), [2, 3, 2], [1, 2, 2], [0, 1, 1], False, False)],
}
_AVERAGE = {"avg_pool2d.default": 2, "avg_pool3d.default": 3}
register_rows(_AVERAGE, _average, _AVERAGE_SAMPLES.__getitem__, "pooling")


@converts(
    aten.avg_pool2d_backward.default,
    samples=[Sample(f32(2, 3, 4, 4), f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, True, None),
             Sample(f32(2, 3, 4, 4), f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, False, None)],
)  # fmt: skip
def avg_pool2d_backward(
    ctx: Context, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"""  # noqa: E501
    attrs = _average_attrs(2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    x, dy = _batched(ctx, self, 2), _batched(ctx, grad_output, 2)
    dx = ctx.emit("AvgPoolV2Grad", ctx.shape(x.dims), dy, attrs=attrs, dtype=dy.dtype, shape=x.dims)
    ctx.layout(dx, Format.NCHW)
    return _unbatched(ctx, dx, self, 2)


def _maximum(axes: int) -> Body:
    """Largest values and where they lie in the (flattened) plane or volume: the operator's true indices."""
    one = [1, 1] if axes == 3 else []

    def convert(
        ctx: Context, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> tuple[Value, Value]:
        size = _each(kernel_size, axes)
        attrs: dict[str, object] = {
            "ksize": [*one, *size],
            "strides": [*one, *_each(stride, axes, size)],
            "pads": [*([0, 0] if axes == 3 else []), *_each(padding, axes)],
            "dilation": [*one, *_each(dilation, axes)],
            "ceil_mode": ceil_mode,
            "data_format": _LAYOUT[axes].name,
            "dtype": _INT64,
        }
        op_type = "MaxPoolWithArgmaxV3" if axes == 2 else "MaxPool3DWithArgmaxV2"
        x = _batched(ctx, self, axes)
        values, places = ctx.emit_many(op_type, x, attrs=attrs, dtype=[self.dtype, torch.int64])
        ctx.layout(values, _LAYOUT[axes])
        return _unbatched(ctx, values, self, axes), _unbatched(ctx, places, self, axes)

    return convert


_MAXIMUM_SAMPLES = {
    "max_pool2d_with_indices.default": [
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1]),
        Sample(f32(3, 7, 6), [2, 2], [], 0, [2, 1], True),
    ],
    "max_pool3d_with_indices.default": [Sample(f32(2, 3, 5, 5, 5), [2, 2, 3], [1, 2, 2], [1, 0, 1])],
}
_MAXIMUM = {"max_pool2d_with_indices.default": 2, "max_pool3d_with_indices.default": 3}
register_rows(_MAXIMUM, _maximum, _MAXIMUM_SAMPLES.__getitem__, "pooling")


@converts(
    aten.max_pool2d_with_indices_backward.default,
    samples=[
        Sample(
            f32(1, 1, 2, 2),
            f32(1, 1, 4, 4),
            [2, 2],
            [2, 2],
            [0, 0],
            [1, 1],
            False,
            torch.tensor([[[[0, 3], [9, 15]]]]),
        )
    ],
)
def max_pool2d_backward(
    ctx: Context, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Value,
) -> Value:  # fmt: skip
    """max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"""  # noqa: E501
    size = _each(kernel_size, 2)
    attrs: dict[str, object] = {
        "ksize": size, "strides": _each(stride, 2, size), "pads": _each(padding, 2),
        "dilation": _each(dilation, 2), "ceil_mode": ceil_mode, "dtype": _INT64,
    }  # fmt: skip
    x, dy, places = (_batched(ctx, v, 2) for v in (self, grad_output, indices))
    dx = ctx.emit("MaxPoolGradWithArgmaxV3", x, dy, places, attrs=attrs, shape=x.dims)
    ctx.layout(dx, Format.NCHW)
    return _unbatched(ctx, dx, self, 2)


@converts(
    aten._adaptive_avg_pool2d.default, samples=[Sample(f32(2, 3, 7, 6), [3, 4]), Sample(f32(3, 6, 6), [2, 2])]
)
def adaptive_avg_pool2d(ctx: Context, self: Value, output_size: Any) -> Value:
    """_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    if not all(isinstance(size, int) for size in output_size):
        ctx.decompose()
    x = _batched(ctx, self, 2)
    y = ctx.emit("AdaptiveAvgPool2d", x, output_size=list(output_size), shape=(*x.dims[:2], *output_size))
    ctx.layout(y, Format.NCHW)
    return _unbatched(ctx, y, self, 2)


@converts(aten._adaptive_avg_pool2d_backward.default, samples=[Sample(f32(2, 3, 3, 4), f32(2, 3, 7, 6))])
def adaptive_avg_pool2d_backward(ctx: Context, grad_output: Value, self: Value) -> Value:
    """_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    if not self.is_static:
        ctx.decompose()
    return ctx.emit("AdaptiveAvgPool2dGrad", grad_output, orig_input_shape=list(self.dims))


def _averaging(rows: int, columns: int) -> list[list[float]]:
    """Row i averages the inputs of output i."""
    matrix = [[0.0] * columns for _ in range(rows)]
    for i in range(rows):
        start, end = i * columns // rows, -(-(i + 1) * columns // rows)
        for j in range(start, end):
            matrix[i][j] = 1.0 / (end - start)
    return matrix


@converts(aten._adaptive_avg_pool3d.default, samples=[Sample(f32(2, 3, 5, 7, 6), [2, 3, 4])])
def adaptive_avg_pool3d(ctx: Context, self: Value, output_size: Any) -> Value:
    """_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"""
    value = self
    for axis, wanted in zip((-3, -2, -1), output_size, strict=True):
        size = value.dims[axis]
        if not isinstance(size, int) or not isinstance(wanted, int):
            ctx.decompose()
        weights = ctx.const(_averaging(wanted, size), self.dtype)
        value = _averaged(ctx, value, value.axis(axis), wanted, weights)
    return value


def _averaged(ctx: Context, value: Value, axis: int, wanted: int, weights: Value) -> Value:
    """The weights times one axis."""
    order = [a for a in range(value.rank) if a != axis] + [axis]
    moved = ctx.transpose(value, order)
    flat = ctx.reshape(moved, (-1 if not value.is_static else math.prod(moved.dims[:-1]), moved.dims[-1]))
    done = ctx.emit("MatMul", flat, weights, transpose_x2=True, shape=(flat.dims[0], wanted))
    back = ctx.reshape(done, (*moved.dims[:-1], wanted))
    return ctx.transpose(back, [order.index(a) for a in range(value.rank)])
