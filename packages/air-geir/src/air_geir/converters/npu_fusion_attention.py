"""The attention torch_npu puts in the place of `scaled_dot_product_attention`, written with products and a softmax."""

from __future__ import annotations

from typing import Any

from air_geir.building import Context, Value
from air_geir.converters.attention import repeated_heads
from air_geir.converters.npu_by_card import by_card

_NO_NUMBER = (
    "pre_tockens", "next_tockens", "inner_precise", "gen_mask_parallel", "sync", "softmax_layout",
)  # fmt: skip
"""Arguments that are not looked at: the mask says what is hidden."""
_CAUSAL = {2: False, 3: True}
"""Sparse modes that hide later keys: counted from the first corner, or from the last one."""


def _heads_first(ctx: Context, value: Value, layout: str, heads: int) -> Value:
    """(batch, heads, length, width)."""
    if layout == "BNSD":
        return value
    if layout == "BSND":
        return ctx.transpose(value, [0, 2, 1, 3])
    if layout == "BSH":
        batch, length, width = value.dims
        return ctx.transpose(ctx.reshape(value, (batch, length, heads, width // heads)), [0, 2, 1, 3])
    if layout == "SBH":
        length, batch, width = value.dims
        return ctx.transpose(ctx.reshape(value, (length, batch, heads, width // heads)), [1, 2, 0, 3])
    ctx.refuse(f"input_layout {layout!r} is not supported", "use BNSD, BSND, BSH or SBH")


def _back(ctx: Context, value: Value, layout: str) -> Value:
    order = {"BNSD": [0, 1, 2, 3], "BSND": [0, 2, 1, 3], "BSH": [0, 2, 1, 3], "SBH": [2, 0, 1, 3]}[layout]
    turned = ctx.transpose(value, order)
    if layout in ("BSH", "SBH"):
        first, second, heads, width = turned.dims
        return ctx.reshape(turned, (first, second, heads * width))
    return turned


def _hidden(ctx: Context, scores: Value, mask: Value | None, sparse_mode: int) -> Value | None:
    """Which places are not looked at; None where all are."""
    if sparse_mode in _CAUSAL:
        queries, keys = scores.dims[2:]
        shift = keys - queries if _CAUSAL[sparse_mode] else 0
        if not isinstance(shift, int):
            ctx.refuse(
                "a causal mask aligned to the last key needs sizes known at compile time",
                "mark the lengths static, or pass a mask with sparse_mode=1",
            )
        ones = ctx.fill((queries, keys), 1, scores.dtype)
        later = ctx.emit("Triu", ones, diagonal=shift + 1)
        return ctx.emit("NotEqual", later, ctx.const(0, scores.dtype))
    if sparse_mode not in (0, 1):
        ctx.refuse(f"sparse_mode {sparse_mode} is not supported", "use 0, 1, 2 or 3")
    if mask is None:
        return None
    return mask if mask.is_bool else ctx.emit("NotEqual", mask, ctx.const(0, mask.dtype))


def _weights(ctx: Context, scores: Value, mask: Value | None, sparse_mode: int) -> Value:
    """How much each query takes of each key: nothing of what is hidden, also where everything is."""
    hidden = _hidden(ctx, scores, mask, sparse_mode)
    if hidden is None:
        return ctx.emit("SoftmaxV2", scores, axes=[-1], shape=scores.shape)
    lowest = ctx.number(float("-inf"), scores.dtype)
    shown = ctx.emit("MaskedFill", scores, hidden, lowest, shape=scores.shape)
    weights = ctx.emit("SoftmaxV2", shown, axes=[-1], shape=scores.shape)
    return ctx.emit("MaskedFill", weights, hidden, ctx.number(0.0, scores.dtype), shape=scores.shape)


def _attention(
    ctx: Context, query: Value, key: Value, value: Value, head_num: int, layout: str, pse: Value | None,
    mask: Value | None, scale: float, sparse_mode: int,
) -> Value:  # fmt: skip
    heads = query.dims[1] if layout == "BNSD" else head_num
    q = _heads_first(ctx, query, layout, head_num)
    width = q.dims[3]
    key_heads = head_num
    if layout in ("BSH", "SBH") and isinstance(key.dims[2], int) and isinstance(width, int):
        key_heads = key.dims[2] // width
    k, v = (repeated_heads(ctx, _heads_first(ctx, x, layout, key_heads), heads) for x in (key, value))
    batch, _, queries, _ = q.dims
    scores_shape = (batch, heads, queries, k.dims[2])
    scores = ctx.emit("BatchMatMul", q, k, adj_x2=True, shape=scores_shape)
    scores = ctx.emit("Mul", scores, ctx.number(scale, scores.dtype), shape=scores_shape)
    if pse is not None:
        scores = ctx.emit("Add", scores, ctx.cast(pse, scores.dtype), shape=scores_shape)
    weights = _weights(ctx, scores, mask, sparse_mode)
    result = ctx.emit("BatchMatMul", weights, v, shape=(batch, heads, queries, v.dims[3]))
    return _back(ctx, result, layout)


@by_card("npu_fusion_attention_v3", ignored=_NO_NUMBER)
def npu_fusion_attention_v3(
    ctx: Context, query: Value, key: Value, value: Value, head_num: int, input_layout: str, pse: Value | None,
    atten_mask: Value | None, scale: float, keep_prob: float, sparse_mode: int,
) -> tuple[Any, ...]:  # fmt: skip
    """The statistics of a training step are left out."""
    if keep_prob != 1.0:
        ctx.refuse("dropout inside attention is not supported", "compile the model in eval mode")
    result = _attention(ctx, query, key, value, head_num, input_layout, pse, atten_mask, scale, sparse_mode)
    return (result, *[None] * (len(ctx.meta) - 1))
