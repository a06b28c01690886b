"""Derivatives that have an operator of their own."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32, i64

aten = torch.ops.aten

_ONE_TO_THREE = torch.tensor([1.0, 2.0, 3.0])
_TWO = Sample(f32(3, 4), f32(3, 4))


def _in_one_type(ctx: Context, *operands: Value) -> tuple[Value, ...]:
    """The operands in the type of the result; the operators take no complex numbers."""
    if ctx.out_dtype.is_complex:
        ctx.decompose()
    return ctx.promote(*operands, dtype=ctx.out_dtype)


@converts(aten.sigmoid_backward.default, samples=[_TWO])
def sigmoid_backward(ctx: Context, grad_output: Value, output: Value) -> Value:
    """sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor"""
    grad, y = _in_one_type(ctx, grad_output, output)
    return ctx.emit("SigmoidGrad", y, grad)


@converts(aten.tanh_backward.default, samples=[_TWO])
def tanh_backward(ctx: Context, grad_output: Value, output: Value) -> Value:
    """tanh_backward(Tensor grad_output, Tensor output) -> Tensor"""
    grad, y = _in_one_type(ctx, grad_output, output)
    return ctx.emit("TanhGrad", y, grad)


@converts(aten.gelu_backward.default, samples=[_TWO, Sample(f32(3), f32(3), approximate="tanh")])
def gelu_backward(ctx: Context, grad_output: Value, self: Value, *, approximate: str = "none") -> Value:
    """gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor"""
    return ctx.emit("GeluGradV2", *_in_one_type(ctx, grad_output, self), approximate=approximate)


@converts(aten.threshold_backward.default, samples=[Sample(f32(3, 4), f32(3, 4), 0.5)])
def threshold_backward(ctx: Context, grad_output: Value, self: Value, threshold: float) -> Value:
    """threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor"""
    dtype = ctx.out_dtype
    if not dtype.is_floating_point and not torch.iinfo(dtype).min <= threshold <= torch.iinfo(dtype).max:
        ctx.refuse(f"the threshold {threshold} is no {dtype}")
    return ctx.emit("ThresholdGradV2D", *_in_one_type(ctx, grad_output, self), threshold=float(threshold))


@converts(aten.leaky_relu_backward.default, samples=[Sample(f32(3, 4), f32(3, 4), 0.2, False)])
def leaky_relu_backward(
    ctx: Context, grad_output: Value, self: Value, negative_slope: float, self_is_result: bool
) -> Value:
    """leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor"""
    return ctx.emit(
        "LeakyReluGrad", *_in_one_type(ctx, grad_output, self), negative_slope=float(negative_slope)
    )


@converts(aten.elu_backward.default, samples=[Sample(f32(3, 4), 0.7, 1.2, 1.1, False, f32(3, 4))])
def elu_backward(
    ctx: Context, grad_output: Value, alpha: float, scale: float, input_scale: float, is_result: bool,
    self_or_result: Value,
) -> Value:  # fmt: skip
    """elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor"""  # noqa: E501
    return ctx.emit(
        "EluGradV2", *_in_one_type(ctx, grad_output, self_or_result), alpha=float(alpha), scale=float(scale),
        input_scale=float(input_scale), is_result=is_result,
    )  # fmt: skip


@converts(aten.hardswish_backward.default, samples=[_TWO])
def hardswish_backward(ctx: Context, grad_output: Value, self: Value) -> Value:
    """hardswish_backward(Tensor grad_output, Tensor self) -> Tensor"""
    return ctx.emit("HardSwishGrad", *_in_one_type(ctx, grad_output, self))


@converts(aten.hardsigmoid_backward.default, samples=[_TWO])
def hardsigmoid_backward(ctx: Context, grad_output: Value, self: Value) -> Value:
    """hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor"""
    return ctx.emit("HardSigmoidGrad", *_in_one_type(ctx, grad_output, self))


@converts(aten.hardtanh_backward.default, samples=[Sample(f32(3, 4), f32(3, 4), -1, 1)])
def hardtanh_backward(ctx: Context, grad_output: Value, self: Value, min_val: float, max_val: float) -> Value:
    """hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor"""
    grad, x = _in_one_type(ctx, grad_output, self)
    return ctx.emit("HardtanhGrad", x, grad, min_val=float(min_val), max_val=float(max_val))


@converts(
    aten.log_sigmoid_backward.default, samples=[Sample(f32(3), _ONE_TO_THREE, torch.exp(-_ONE_TO_THREE))]
)
def log_sigmoid_backward(ctx: Context, grad_output: Value, self: Value, buffer: Value) -> Value:
    """log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor"""
    return ctx.emit("LogSigmoidGrad", grad_output, self)


@converts(aten.glu_backward.default, samples=[Sample(f32(3, 2), f32(3, 4), -1)])
def glu_backward(ctx: Context, grad_output: Value, self: Value, dim: int) -> Value:
    """glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor"""
    return ctx.emit("GLUGrad", grad_output, self, dim=dim)


@converts(aten._softmax_backward_data.default, samples=[Sample(f32(3, 4), f32(3, 4), -1, torch.float32)])
def softmax_backward(ctx: Context, grad_output: Value, output: Value, dim: int, input_dtype: Any) -> Value:
    """_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    return ctx.cast(
        ctx.emit("SoftmaxGrad", output, grad_output, axes=[dim], shape=output.shape), ctx.out_dtype
    )


@converts(aten._log_softmax_backward_data.default, samples=[Sample(f32(3, 4), f32(3, 4), -1, torch.float32)])
def log_softmax_backward(
    ctx: Context, grad_output: Value, output: Value, dim: int, input_dtype: Any
) -> Value:
    """_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    return ctx.cast(
        ctx.emit("LogSoftmaxGrad", grad_output, output, axis=[dim], shape=output.shape), ctx.out_dtype
    )


@converts(
    aten.embedding_dense_backward.default,
    samples=[Sample(f32(4, 3), i64(4, low=0, high=5), 5, 1, False)],
)
def embedding_dense_backward(
    ctx: Context,
    grad_output: Value,
    indices: Value,
    num_weights: Any,
    padding_idx: Any,
    scale_grad_by_freq: bool,
) -> Value:
    """embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor"""  # noqa: E501
    return ctx.emit(
        "EmbeddingDenseGrad", grad_output, indices, num_weights=num_weights, padding_idx=padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
    )  # fmt: skip


@converts(
    aten._embedding_bag.default,
    aten._embedding_bag_forward_only.default,
    samples=[Sample(f32(6, 3), i64(5, low=0, high=6), torch.tensor([0, 2]), False, 0)],
)
def embedding_bag(
    ctx: Context, weight: Value, indices: Value, offsets: Value, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Value | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, ...]:  # fmt: skip
    """_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many(
        "EmbeddingBag", weight, indices, offsets, per_sample_weights, mode=("sum", "mean", "max")[mode],
        scale_grad_by_freq=scale_grad_by_freq, include_last_offset=include_last_offset, padding_idx=padding_idx,
        dtype=[m.dtype for m in ctx.meta],
    )  # fmt: skip
