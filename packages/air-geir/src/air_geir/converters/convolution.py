"""Convolutions of one, two and three axes, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32
from air_geir.ir import Format

aten = torch.ops.aten

_LAYOUT = {2: Format.NCHW, 3: Format.NCDHW}


def _numbers(ctx: Context, values: Sequence[Any], axes: int) -> list[int]:
    """One number per axis; a single one stands for all."""
    if not all(isinstance(v, int) for v in values):
        ctx.refuse(
            "stride, padding and dilation of a convolution must be known at compile time",
            "compute them from numbers, not from sizes of tensors",
        )
    numbers = [int(v) for v in values]
    return numbers * axes if len(numbers) == 1 else numbers


def _widened(ctx: Context, value: Value) -> Value:
    """A signal as an image of height one."""
    batch, channels, length = value.dims
    return ctx.emit("Unsqueeze", value, axes=[2], shape=(batch, channels, 1, length))


def window(
    ctx: Context, axes: int, groups: int, stride: Any, padding: Any, dilation: Any
) -> dict[str, object]:
    """Those of a convolution, for two axes when the convolution has one."""
    strides, pads, dilations = (_numbers(ctx, v, axes) for v in (stride, padding, dilation))
    if axes == 1:
        strides, pads, dilations = [1, *strides], [0, *pads], [1, *dilations]
    return {
        "strides": [1, 1, *strides],
        "pads": [p for amount in pads for p in (amount, amount)],
        "dilations": [1, 1, *dilations],
        "groups": groups,
        "data_format": _LAYOUT[len(strides)].name,
    }


@converts(
    aten.convolution.default,
    samples=[
        Sample(f32(2, 4, 7, 7), f32(6, 4, 3, 3), f32(6), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
        Sample(f32(2, 4, 7), f32(6, 2, 3), None, [1], [1], [2], False, [0], 2),
        Sample(
            f32(1, 2, 5, 5, 5),
            f32(3, 2, 3, 3, 3),
            f32(3),
            [1, 1, 1],
            [0, 1, 0],
            [1, 1, 1],
            False,
            [0, 0, 0],
            1,
        ),
        Sample(f32(2, 4, 5, 5), f32(4, 3, 3, 3), f32(6), [2, 2], [1, 1], [1, 1], True, [1, 1], 2),
        Sample(f32(2, 4, 5), f32(4, 3, 3), None, [2], [1], [1], True, [1], 1),
        Sample(
            f32(1, 2, 3, 3, 3),
            f32(2, 3, 2, 2, 2),
            f32(3),
            [2, 2, 2],
            [0, 0, 0],
            [1, 1, 1],
            True,
            [0, 0, 0],
            1,
        ),
    ],
)
def convolution(
    ctx: Context, input: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""  # noqa: E501
    axes = input.rank - 2
    signal = axes == 1
    x, kernel = (_widened(ctx, input), _widened(ctx, weight)) if signal else (input, weight)
    space = 2 if signal else axes
    attrs = window(ctx, axes, groups, stride, padding, dilation)
    out = ctx.out_shape
    shape = (*out[:2], 1, out[2]) if signal else out
    if transposed:
        attrs["output_padding"] = [0] * (2 + signal) + _numbers(ctx, output_padding, axes)
        y = ctx.emit(
            f"Conv{space}DTranspose",
            ctx.shape(shape),
            x,
            kernel,
            bias,
            attrs=attrs,
            dtype=x.dtype,
            shape=shape,
        )
    else:
        y = ctx.emit(f"Conv{space}D", x, kernel, bias, attrs=attrs, shape=shape)
    ctx.layout(y, _LAYOUT[space])
    return ctx.emit("Squeeze", y, axis=[2]) if signal else y


_SAMPLES_OF_GRADIENTS = [
    Sample(
        f32(2, 6, 5, 5), f32(2, 4, 5, 5), f32(6, 4, 3, 3), [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3
    ),
    Sample(f32(2, 6, 5), f32(2, 4, 5), f32(6, 4, 3), None, [1], [1], [1], False, [0], 1, [True, True, False]),
    Sample(
        f32(2, 3, 10, 10), f32(2, 4, 5, 5), f32(4, 3, 3, 3), [3], [2, 2], [1, 1], [1, 1], True, [1, 1], 1,
        [True] * 3,
    ),
    Sample(
        f32(2, 6, 13, 9), f32(2, 4, 5, 5), f32(4, 3, 3, 3), [6], [2, 1], [0, 0], [2, 2], True, [0, 0], 2,
        [True] * 3,
    ),
    Sample(f32(2, 3, 9), f32(2, 4, 5), f32(4, 3, 3), None, [2], [1], [1], True, [0], 1, [True, True, False]),
    Sample(
        f32(1, 3, 6, 6, 6), f32(1, 2, 3, 3, 3), f32(2, 3, 2, 2, 2), [3], [2] * 3, [0] * 3, [1] * 3, True, [0] * 3, 1,
        [False, True, True],
    ),
]  # fmt: skip


@converts(aten.convolution_backward.default, samples=_SAMPLES_OF_GRADIENTS)
def convolution_backward(
    ctx: Context, grad_output: Value, input: Value, weight: Value, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    """convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    _fits(ctx, transposed, stride, output_padding)
    signal, space = input.rank == 3, max(input.rank - 2, 2)
    dy, x, kernel = (_widened(ctx, v) if signal else v for v in (grad_output, input, weight))
    attrs = window(ctx, input.rank - 2, groups, stride, padding, dilation)

    def made(op_type: str, *operands: Any, like: Value) -> Value:
        found = ctx.emit(op_type, *operands, attrs=attrs, dtype=x.dtype, shape=like.dims)
        ctx.layout(found, _LAYOUT[space])
        if not signal:
            return found
        batch, channels, _, length = like.dims
        return ctx.emit("Squeeze", found, axis=[2], shape=(batch, channels, length))

    results: list[Value | None] = [None, None, None]
    if output_mask[0] and transposed:  # the adjoint of the adjoint
        results[0] = made(f"Conv{space}D", dy, kernel, None, like=x)
    elif output_mask[0]:
        results[0] = made(f"Conv{space}DBackpropInput", ctx.shape(x.dims), kernel, dy, like=x)
    if output_mask[1]:
        source, gradient = (dy, x) if transposed else (x, dy)
        results[1] = made(
            f"Conv{space}DBackpropFilter", source, ctx.shape(kernel.dims), gradient, like=kernel
        )
    if output_mask[2]:
        over = [0, *range(2, grad_output.rank)]
        results[2] = ctx.emit("ReduceSum", grad_output, over, shape=grad_output.dims[1:2])
    return tuple(results)


def _fits(ctx: Context, transposed: bool, stride: Sequence[Any], output_padding: Sequence[Any]) -> None:
    """Whether a convolution of what a transposed one gives has the size of its input."""
    longest = max(len(stride), len(output_padding))
    steps, borders = (_numbers(ctx, given, longest) for given in (stride, output_padding))
    if transposed and any(border >= step for step, border in zip(steps, borders, strict=True)):
        ctx.refuse("the gradient of a transposed convolution that is padded by a whole step has no operator")
