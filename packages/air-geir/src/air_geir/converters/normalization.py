"""Normalisation over features, channels and batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._precision import attributes_must_fit
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32
from air_geir.converters.reductions import reduce
from air_geir.ir import Dim, Format

aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@converts(
    aten.native_layer_norm.default,
    samples=[Sample(f32(2, 3, 4), [4], f32(4), f32(4), 1e-5), Sample(f32(2, 3, 4), [3, 4], None, None, 1e-5)],
)
def native_layer_norm(
    ctx: Context,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    attributes_must_fit(ctx, eps, dtype=input.dtype)
    single = torch.promote_types(input.dtype, torch.float32)
    told = ctx.meta[1].dtype
    # for wide weights, the CPU has the statistics in their type and torch foresees that of the input
    is_foreseen = not any(value is not None and value.dtype == single for value in (weight, bias))
    statistics = single if is_foreseen else told
    y, mean, rstd = ctx.emit_many(
        "LayerNormV4", input, ctx.shape(list(normalized_shape)), weight, bias, epsilon=float(eps),
        dtype=[input.dtype, statistics, statistics], shape=[input.shape, None, None],
    )  # fmt: skip
    return y, ctx.cast(mean, told), ctx.cast(rstd, told)


def _as_image(sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The sizes of a batch of images with the same channels: the operator takes no other rank."""
    batch, channels, *rest = sizes
    high = rest[0] if rest else 1
    return batch, channels, high, math.prod(rest[1:])


def _per_channel(ctx: Context, value: Value, rank: int) -> Value:
    """A vector over channels, ready to be combined with a batch of that rank."""
    return ctx.reshape(value, (1, *value.dims, *[1] * (rank - 2)))


@converts(
    aten._native_batch_norm_legit_no_training.default,
    samples=[
        Sample(f32(2, 3, 4), f32(3), f32(3), f32(3), f32(3, low=0.5, high=2), 0.1, 1e-5),
        Sample(f32(2, 3), None, None, f32(3), f32(3, low=0.5, high=2), 0.1, 1e-5),
    ],
)
def batch_norm_inference(
    ctx: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value,
    running_var: Value, momentum: float, eps: float,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    attributes_must_fit(ctx, eps, dtype=input.dtype)
    if input.dtype not in _FLOATS:
        ctx.decompose()
    shape = running_mean.dims
    given = (weight, 1), (bias, 0), (running_mean, 0), (running_var, 0)
    settings = [
        ctx.cast(value, torch.float32) if value is not None else ctx.fill(shape, number, torch.float32)
        for value, number in given
    ]
    x = ctx.reshape(input, _as_image(input.dims))
    y = ctx.emit("BNInfer", x, *settings, epsilon=float(eps), shape=x.shape)
    ctx.layout(y, Format.NCHW, of_all=True)
    y = ctx.reshape(y, input.dims)
    mean, rstd = (
        ctx.fill(tuple(m.shape), 0, m.dtype) for m in ctx.meta[1:]
    )  # empty on the CPU, zeros on an NPU
    return y, mean, rstd


@converts(
    aten._native_batch_norm_legit.no_stats,
    samples=[
        Sample(f32(2, 3, 4), f32(3), f32(3), True, 0.1, 1e-5),
        Sample(f32(4, 3), None, None, True, 0.1, 1e-5),
    ],
)
def batch_norm_no_stats(
    ctx: Context,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    axes = [a for a in range(input.rank) if a != 1]
    wide = ctx.cast(input, ctx.meta[1].dtype)
    mean = reduce(ctx, "ReduceMean", wide, axes, True)
    centred = ctx.emit("Sub", wide, mean, shape=wide.shape)
    var = reduce(ctx, "ReduceMean", ctx.emit("Square", centred), axes, True)
    rstd = ctx.emit("Rsqrt", ctx.emit("Add", var, ctx.const(eps, var.dtype), shape=var.shape))
    y = ctx.emit("Mul", centred, rstd, shape=wide.shape)
    if weight is not None:
        y = ctx.emit("Mul", y, _per_channel(ctx, ctx.cast(weight, y.dtype), input.rank), shape=wide.shape)
    if bias is not None:
        y = ctx.emit("Add", y, _per_channel(ctx, ctx.cast(bias, y.dtype), input.rank), shape=wide.shape)
    channels = input.dims[1:2]
    return ctx.cast(y, input.dtype), ctx.reshape(mean, channels), ctx.reshape(rstd, channels)


@converts(
    aten.native_group_norm.default,
    samples=[
        Sample(f32(2, 4, 3, 3), f32(4), f32(4), 2, 4, 9, 2, 1e-5),
        Sample(f32(2, 4, 3), None, None, 2, 4, 3, 4, 1e-5),
    ],
)
def native_group_norm(
    ctx: Context, input: Value, weight: Value | None, bias: Value | None, N: Any, C: Any, HxW: Any,  # noqa: N803
    group: int, eps: float,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    attributes_must_fit(ctx, eps, dtype=input.dtype)
    if input.dtype not in _FLOATS:
        ctx.decompose()
    given = [value for value in (input, weight, bias) if value is not None]
    alike = {value.dtype for value in given} == {torch.float16}
    # the operator takes these two; newer ones are those of few chips
    dtype = torch.float16 if alike else torch.float32
    gamma, beta = (
        ctx.cast(value, dtype) if value is not None else ctx.fill((C,), number, dtype)
        for value, number in ((weight, 1), (bias, 0))
    )
    attrs = {"num_groups": group, "data_format": "NCHW", "eps": float(eps), "is_training": True}
    y, mean, variance = ctx.emit_many(
        "GroupNorm", ctx.cast(input, dtype), gamma, beta, attrs=attrs,
        dtype=[dtype] * 3, shape=[input.shape, (N, group), (N, group)],
    )  # fmt: skip
    wide = ctx.cast(variance, torch.float32)
    rstd = ctx.emit("Rsqrt", ctx.emit("Add", wide, ctx.const(eps, torch.float32), shape=wide.shape))
    statistics = ctx.meta[1].dtype
    return ctx.cast(y, input.dtype), ctx.cast(mean, statistics), ctx.cast(rstd, statistics)


@converts(aten._fused_rms_norm.default, samples=[Sample(f32(2, 3, 4), [4], f32(4), 1e-6)])
def fused_rms_norm(
    ctx: Context, input: Value, normalized_shape: Sequence[Size], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    """_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    if weight is not None and weight.dtype.is_complex:
        ctx.refuse("a complex weight has no operator", "normalise real and imaginary part separately")
    epsilon = torch.finfo(input.dtype).eps if eps is None else float(eps)
    attributes_must_fit(ctx, epsilon, dtype=input.dtype)
    gamma = weight if weight is not None else ctx.fill(list(normalized_shape), 1, input.dtype)
    statistics = ctx.meta[1].dtype
    y, rstd = ctx.emit_many(
        "RmsNorm", input, gamma, epsilon=epsilon, dtype=[input.dtype, statistics], shape=[input.shape, None]
    )
    return y, rstd
