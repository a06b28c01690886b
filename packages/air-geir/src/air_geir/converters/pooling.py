"""Pooling windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, f32
from air_geir.ir import Format

aten = torch.ops.aten

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_LAYOUT = {2: Format.NCHW, 3: Format.NCDHW}
_INT32 = 3
"""Number of int32 in the attribute that chooses the type of pooling indices: the one that every chip has."""


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


def _needs_floats(ctx: Context, value: Value) -> None:
    if value.dtype not in _FLOATS:
        ctx.refuse(f"pooling has no operator for {value.dtype}", "pool float32, float16 or bfloat16")


def _average_attrs(
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    include: bool,
    divisor: int | None,
) -> dict[str, object]:
    size = _each(kernel_size, 2)
    return {
        "ksize": [1, 1, *size],
        "strides": [1, 1, *_each(stride, 2, size)],
        "pads": _pads(_each(padding, 2)),
        "ceil_mode": ceil_mode,
        "divisor_override": divisor or 0,
        "data_format": "NCHW",
        "exclusive": not include,
    }


def _means(ctx: Context, planes: Value, attrs: dict[str, object]) -> Value:
    y = ctx.emit("AvgPoolV2", planes, attrs=attrs)
    ctx.layout(y, Format.NCHW)
    return y


@converts(
    aten.avg_pool2d.default,
    samples=[
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1]),
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, False),
        Sample(f32(3, 7, 7), [3, 2], [], [1, 0], True),
        Sample(f32(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, True, 4),
    ],
)
def avg_pool2d(
    ctx: Context, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""  # noqa: E501
    _needs_floats(ctx, self)
    attrs = _average_attrs(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _unbatched(ctx, _means(ctx, _batched(ctx, self, 2), attrs), self, 2)


@converts(
    aten.avg_pool3d.default,
    samples=[
        Sample(f32(2, 3, 5, 5, 5), [2, 3, 2], [1, 2, 2], [0, 1, 1], False, False),
        Sample(f32(3, 5, 6, 4), [2], [], [1], True, True),
        Sample(f32(2, 3, 5, 5, 5), [2, 3, 2], [1, 2, 2], [0, 1, 1], False, True, 5),
    ],
)
def avg_pool3d(
    ctx: Context, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""  # noqa: E501
    _needs_floats(ctx, self)
    # in planes, and then in depth: AvgPool3D takes volumes like torch's on few chips
    size, pads = _each(kernel_size, 3), _each(padding, 3)
    steps = _each(stride, 3, size)
    rest = (ceil_mode, count_include_pad, None if divisor_override is None else 1)
    x = ctx.cast(_batched(ctx, self, 3), torch.float32)
    batch, channels, depth, height, width = x.dims
    deep, high, wide = ctx.out_shape[-3:]
    planes = ctx.reshape(x, (batch, channels * depth, height, width))
    means = _means(ctx, planes, _average_attrs(size[1:], steps[1:], pads[1:], *rest))
    columns = ctx.reshape(means, (batch, channels, depth, high * wide))
    y = _means(ctx, columns, _average_attrs([size[0], 1], [steps[0], 1], [pads[0], 0], *rest))
    if divisor_override is not None:
        y = ctx.emit("RealDiv", y, ctx.number(divisor_override, y.dtype))
    return ctx.cast(ctx.reshape(y, (*self.dims[:-3], deep, high, wide)), self.dtype)


@converts(
    aten.avg_pool3d_backward.default,
    samples=[
        Sample(f32(2, 3, 4, 3, 2), f32(2, 3, 5, 5, 5), [2, 3, 2], [1, 2, 2], [0, 1, 0], False, False, None),
        Sample(f32(3, 2, 3, 2), f32(3, 5, 6, 4), [2], [], [0], False, True, 5),
    ],
)
def avg_pool3d_backward(
    ctx: Context, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"""  # noqa: E501
    _needs_floats(ctx, self)
    size, pads = _each(kernel_size, 3), _each(padding, 3)
    steps = _each(stride, 3, size)
    rest = (ceil_mode, count_include_pad, None if divisor_override is None else 1)
    batch, channels, depth, height, width = self.dims if self.rank == 5 else (1, *self.dims)
    deep, high, wide = grad_output.dims[-3:]
    grad = ctx.cast(grad_output, torch.float32)
    if divisor_override is not None:
        grad = ctx.emit("RealDiv", grad, ctx.number(divisor_override, grad.dtype))
    columns = ctx.reshape(grad, (batch, channels, deep, high * wide))
    of_depth = _average_attrs([size[0], 1], [steps[0], 1], [pads[0], 0], *rest)
    columns = _shared_out(ctx, columns, (batch, channels, depth, high * wide), of_depth)
    planes = ctx.reshape(columns, (batch, channels * depth, high, wide))
    of_planes = _average_attrs(size[1:], steps[1:], pads[1:], *rest)
    planes = _shared_out(ctx, planes, (batch, channels * depth, height, width), of_planes)
    return ctx.cast(ctx.reshape(planes, self.dims), self.dtype)


def _shared_out(ctx: Context, grad: Value, sizes: Sequence[Size], attrs: dict[str, object]) -> Value:
    """What each element of planes of these sizes has of the gradients of its windows."""
    of = ctx.cast(ctx.shape(sizes), torch.int32)  # the operator takes no int64
    dx = ctx.emit("AvgPoolV2Grad", of, grad, attrs=attrs, dtype=grad.dtype, shape=sizes)
    ctx.layout(dx, Format.NCHW)
    return dx


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
    attrs = _average_attrs(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    x, dy = _batched(ctx, self, 2), _batched(ctx, grad_output, 2)
    return _unbatched(ctx, _shared_out(ctx, dy, x.dims, attrs), self, 2)


def _volumes(ctx: Context, value: Value, axes: int) -> Value:
    """As a batch of volumes: images are one deep."""
    batched = _batched(ctx, value, axes)
    return batched if axes == 3 else ctx.emit("Unsqueeze", batched, axes=[2])


def _not_volumes(ctx: Context, value: Value, like: Value, axes: int) -> Value:
    flat = value if axes == 3 else ctx.emit("Squeeze", value, axis=[2])
    return _unbatched(ctx, flat, like, axes)


def _window(
    axes: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> dict[str, object]:
    """Attributes of the operators on volumes: a number for depth, height and width each."""
    size = _each(kernel_size, axes)
    steps, pads, gaps = _each(stride, axes, size), _each(padding, axes), _each(dilation, axes)
    one, none = [1] * (3 - axes), [0] * (3 - axes)
    return {
        "ksize": [*one, *size],
        "strides": [*one, *steps],
        "pads": [*none, *pads],
        "dilation": [*one, *gaps],
        "ceil_mode": ceil_mode,
        "data_format": "NCDHW",
    }


def _maximum(axes: int) -> Body:
    """Largest values and where they lie in the plane or volume: those on planes alone are operators of few chips."""

    def convert(ctx: Context, self: Value, *settings: Any) -> tuple[Value, Value]:
        _needs_floats(ctx, self)
        attrs = {**_window(axes, *settings), "dtype": _INT32}
        x, types = _volumes(ctx, self, axes), [self.dtype, torch.int32]
        values, places = ctx.emit_many("MaxPool3DWithArgmaxV2", x, attrs=attrs, dtype=types)
        ctx.layout(values, Format.NCDHW)
        places = ctx.cast(_not_volumes(ctx, places, self, axes), ctx.out_dtypes[1])  # devices differ in it
        return _not_volumes(ctx, values, self, axes), places

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


def _maximum_backward(axes: int) -> Body:
    """Each gradient goes to the place that its window took."""

    def convert(ctx: Context, grad_output: Value, self: Value, *settings: Any) -> Value:
        _needs_floats(ctx, self)
        *window, indices = settings
        places = ctx.cast(indices, torch.int32)
        x, dy, at = (_volumes(ctx, value, axes) for value in (self, grad_output, places))
        dx = ctx.emit("MaxPool3DGradWithArgmax", x, dy, at, attrs=_window(axes, *window))
        ctx.layout(dx, Format.NCDHW)
        return _not_volumes(ctx, dx, self, axes)

    return convert


_PLACES = torch.tensor([[[[0, 3], [9, 15]]]])
_VOLUME_PLACES = torch.tensor([[[[[0, 3], [9, 15]]]]])
_MAXIMUM_BACKWARD_SAMPLES = {
    "max_pool2d_with_indices_backward.default": [
        Sample(f32(1, 1, 2, 2), f32(1, 1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, _PLACES),
        Sample(f32(1, 2, 2), f32(1, 4, 4), [2], [], 0, 1, False, _PLACES[0]),
    ],
    "max_pool3d_with_indices_backward.default": [
        Sample(
            f32(1, 1, 1, 2, 2),
            f32(1, 1, 2, 4, 4),
            [2, 2, 2],
            [2, 2, 2],
            [0, 0, 0],
            [1, 1, 1],
            False,
            _VOLUME_PLACES,
        )
    ],
}
_MAXIMUM_BACKWARD = {name.replace("indices.", "indices_backward."): axes for name, axes in _MAXIMUM.items()}
register_rows(_MAXIMUM_BACKWARD, _maximum_backward, _MAXIMUM_BACKWARD_SAMPLES.__getitem__, "pooling")


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


@converts(
    aten._adaptive_avg_pool2d_backward.default,
    samples=[Sample(f32(2, 3, 3, 4), f32(2, 3, 7, 6)), Sample(f32(0, 3, 3, 4), f32(0, 3, 7, 6))],
)
def adaptive_avg_pool2d_backward(ctx: Context, grad_output: Value, self: Value) -> Value:
    """_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    if not self.is_static:
        ctx.decompose()
    if 0 in self.dims:  # the engine takes sizes above zero
        return ctx.fill(self.dims, 0, ctx.out_dtype)
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
