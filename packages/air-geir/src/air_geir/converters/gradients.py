"""Derivatives that have an operator of their own."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._precision import attributes_must_fit
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, f32, i64

aten = torch.ops.aten

_ONE_TO_THREE = torch.tensor([1.0, 2.0, 3.0])
_TWO = Sample(f32(3, 4), f32(3, 4))


def _in_one_type(ctx: Context, *operands: Value) -> tuple[Value, ...]:
    """The operands in the type of the result; the operators take no complex numbers."""
    if ctx.out_dtype.is_complex:
        ctx.decompose()
    return ctx.promote(*operands, dtype=ctx.out_dtype)


register_direct(
    {
        "sigmoid_backward.default": ("SigmoidGrad(output grad_output)", [_TWO]),
        "tanh_backward.default": ("TanhGrad(output grad_output)", [_TWO]),
        "gelu_backward.default": (
            "GeluGradV2(grad_output self) {approximate}", [_TWO, Sample(f32(3), f32(3), approximate="tanh")],
        ),
        "leaky_relu_backward.default": (
            "LeakyReluGrad(grad_output self) {negative_slope}", [Sample(f32(3, 4), f32(3, 4), 0.2, False)],
        ),
        "elu_backward.default": (
            "EluGradV2(grad_output self_or_result) {alpha scale input_scale is_result}",
            [Sample(f32(3, 4), 0.7, 1.2, 1.1, False, f32(3, 4))],
        ),
        "hardswish_backward.default": ("HardSwishGrad(grad_output self)", [_TWO]),
        "hardsigmoid_backward.default": ("HardSigmoidGrad(grad_output self)", [_TWO]),
        "hardtanh_backward.default": (
            "HardtanhGrad(self grad_output) {min_val max_val}", [Sample(f32(3, 4), f32(3, 4), -1, 1)],
        ),
    },
    "gradients",
    _in_one_type,
)  # fmt: skip
register_direct(
    {
        "log_sigmoid_backward.default": (
            "LogSigmoidGrad(grad_output self)", [Sample(f32(3), _ONE_TO_THREE, torch.exp(-_ONE_TO_THREE))],
        ),
        "glu_backward.default": ("GLUGrad(grad_output self) {dim}", [Sample(f32(3, 2), f32(3, 4), -1)]),
    },
    "gradients",
)  # fmt: skip


@converts(
    aten.embedding_dense_backward.default, samples=[Sample(f32(4, 3), i64(4, low=0, high=5), 5, 1, False)]
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
    if not (isinstance(num_weights, int) and isinstance(padding_idx, int)):
        ctx.decompose()  # the operator takes them as attributes
    return ctx.emit(
        "EmbeddingDenseGrad", grad_output, indices, num_weights=num_weights, padding_idx=padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
    )  # fmt: skip


@converts(aten.threshold_backward.default, samples=[Sample(f32(3, 4), f32(3, 4), 0.5)])
def threshold_backward(ctx: Context, grad_output: Value, self: Value, threshold: float) -> Value:
    """threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor"""
    dtype = ctx.out_dtype
    if not dtype.is_floating_point and not torch.iinfo(dtype).min <= threshold <= torch.iinfo(dtype).max:
        ctx.refuse(
            f"the threshold {threshold} is no {dtype}", "take a threshold within the range of the type"
        )
    attributes_must_fit(ctx, threshold, dtype=ctx.out_dtype)
    return ctx.emit("ThresholdGradV2D", *_in_one_type(ctx, grad_output, self), threshold=float(threshold))


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
    y, bags, counts, largest = ctx.emit_many(
        "EmbeddingBag", weight, indices, offsets, per_sample_weights, mode=("sum", "mean", "max")[mode],
        scale_grad_by_freq=scale_grad_by_freq, include_last_offset=include_last_offset, padding_idx=padding_idx,
        dtype=[m.dtype for m in ctx.meta],
    )  # fmt: skip
    if tuple(ctx.meta[1].shape) == (0,):
        bags = ctx.fill((0,), 0, ctx.meta[1].dtype)
    elif mode == 0:
        bags = _bags(ctx, indices, offsets)
    if include_last_offset and ctx.meta[2].shape[0] != ctx.meta[0].shape[0]:
        counts = _counts(ctx, _bags(ctx, indices, offsets), indices, padding_idx)
    if mode != 2 and tuple(ctx.meta[3].shape) == (0,):
        largest = ctx.fill((0,), 0, ctx.meta[3].dtype)
    return y, bags, counts, largest


def _counts(ctx: Context, bags: Value, indices: Value, padding_idx: int) -> Value:
    """How many rows each bag has, where a graph is traced for one more, the end, which has none."""
    (count,), dtype = indices.dims, ctx.meta[2].dtype
    wanted = ctx.dim(ctx.meta[2].shape[0])
    each = ctx.cast(ctx.numbers(wanted), bags.dtype)
    own = ctx.emit("Equal", ctx.reshape(bags, (count, 1)), each, shape=(count, wanted))
    if padding_idx >= 0:
        kept = ctx.emit("NotEqual", indices, ctx.const(padding_idx, indices.dtype), shape=(count,))
        own = ctx.emit(
            "LogicalAnd", own, ctx.reshape(kept, (count, 1)), dtype=torch.bool, shape=(count, wanted)
        )
    return ctx.emit("ReduceSum", ctx.cast(own, dtype), [0], shape=(wanted,))


def _bags(ctx: Context, indices: Value, offsets: Value) -> Value:
    """The bag of each index: kernels for sums leave it out, and a graph is traced for as many as there are indices."""
    (count,), dtype = indices.dims, offsets.dtype
    column = ctx.reshape(ctx.cast(ctx.numbers(count), dtype), (count, 1))
    begun = ctx.cast(ctx.emit("GreaterEqual", column, offsets, shape=(count, *offsets.dims)), dtype)
    number = ctx.emit("ReduceSum", begun, [1], shape=(count,))
    return ctx.cast(ctx.emit("Sub", number, ctx.const(1, dtype), shape=(count,)), ctx.meta[1].dtype)
