"""Attention as torch computes it on the CPU, written with products and a softmax.

Torch has decompositions for these operators too; tracing one costs more than lowering a whole small model, and an
encoder with a decoder needs three of them.
"""

from __future__ import annotations

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, bf16, f32
from air_geir.ir import Dim

aten = torch.ops.aten
_NARROW = (torch.float16, torch.bfloat16)


def repeated_heads(ctx: Context, value: Value, heads: Dim) -> Value:
    """Every head of keys or values as often as there are queries that share it."""
    batch, own, length, width = value.dims
    if own == heads:
        return value
    groups = heads // own
    apart = ctx.reshape(value, (batch, own, 1, length, width))
    return ctx.reshape(
        ctx.broadcast(apart, (batch, own, groups, length, width)), (batch, heads, length, width)
    )


@converts(
    aten._safe_softmax.default,
    samples=[
        Sample(f32(3, 4), -1),
        Sample(bf16(2, 3), 0, torch.float32),
        Sample(f32(), 0),
    ],
)
def safe_softmax(ctx: Context, self: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor

    A row of which nothing is left by the mask has weights of zero, where a plain softmax gives NaN.
    """
    return _safe(ctx, ctx.cast(self, ctx.out_dtype), dim)


def _safe(ctx: Context, wide: Value, dim: int) -> Value:
    if not wide.rank:
        return ctx.reshape(_safe(ctx, ctx.reshape(wide, (1,)), 0), ())
    hidden = ctx.emit("Equal", wide, ctx.const(float("-inf"), wide.dtype), shape=wide.shape)
    one = tuple(1 if at == wide.axis(dim) else size for at, size in enumerate(wide.dims))
    empty = ctx.emit("ReduceAll", hidden, [dim], keep_dims=True, shape=one)
    weights = ctx.emit("SoftmaxV2", wide, axes=[dim], shape=wide.shape)
    return ctx.emit("SelectV2", empty, ctx.const(0, wide.dtype), weights, dtype=wide.dtype, shape=wide.shape)


def _causal(ctx: Context, scores: Value) -> Value:
    """Minus infinity where a key is later than its query."""
    ones = ctx.fill(scores.dims[2:], 1, scores.dtype)
    later = ctx.emit("NotEqual", ctx.emit("Triu", ones, diagonal=1), ctx.const(0, scores.dtype))
    return ctx.emit("MaskedFill", scores, later, ctx.number(float("-inf"), scores.dtype), shape=scores.shape)


def _usual_scale(ctx: Context, width: Dim, dtype: torch.dtype) -> Value:
    """One over the root of the width of a head."""
    if isinstance(width, int):
        return ctx.const(width**-0.5, dtype)
    return ctx.emit("Rsqrt", ctx.cast(ctx.sizes.scalar(ctx, width), dtype))


_Q, _K = f32(2, 4, 3, 8), f32(2, 4, 5, 8)


@converts(
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    samples=[
        Sample(_Q, _K, _K),
        Sample(_Q, _Q, _Q, 0.0, True),
        Sample(_Q, _K, _K, attn_mask=f32(2, 1, 3, 5), scale=0.25),
        Sample(_Q, f32(2, 2, 5, 8), f32(2, 2, 5, 8)),
    ],
)
def flash_attention_on_cpu(
    ctx: Context, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    """_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""  # noqa: E501
    if dropout_p:
        ctx.refuse("dropout inside attention is not supported", "compile the model in eval mode")
    compute = torch.float32 if query.dtype in _NARROW else query.dtype
    batch, heads, queries, width = query.dims
    factor = ctx.number(scale, compute) if scale is not None else _usual_scale(ctx, width, compute)
    q = ctx.cast(query, compute)
    k, v = (repeated_heads(ctx, ctx.cast(x, compute), heads) for x in (key, value))
    shape = (batch, heads, queries, key.dims[2])
    scores = ctx.emit("BatchMatMul", ctx.emit("Mul", q, factor), k, adj_x2=True, shape=shape)
    if is_causal:
        scores = _causal(ctx, scores)
    if attn_mask is not None:
        scores = ctx.emit("Add", scores, ctx.cast(attn_mask, compute), shape=shape)
        weights = _safe(ctx, scores, -1)
    else:
        weights = ctx.emit("SoftmaxV2", scores, axes=[-1], shape=shape)
    result = ctx.emit("BatchMatMul", weights, v, shape=query.dims)
    largest = ctx.emit("ReduceLogSumExp", scores, [-1], shape=shape[:3])
    return ctx.cast(result, query.dtype), ctx.cast(largest, ctx.meta[1].dtype)
