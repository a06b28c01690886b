"""The attention of training, which torch_npu also puts in the place of `scaled_dot_product_attention`; its gradient."""

from __future__ import annotations

from typing import Any

from air_geir.building import Context, Value
from air_geir.converters.npu_by_card import by_card

_HINTS = ("gen_mask_parallel", "sync", "seed", "offset", "numels", "softmax_in")
"""Arguments that change no number where nothing is dropped."""


def _attributes(
    ctx: Context, head_num: int, input_layout: str, scale: float, keep_prob: float, **windows: int
) -> dict[str, Any]:
    if keep_prob != 1.0:
        ctx.refuse("dropout inside attention is not supported", "compile the model in eval mode")
    return {
        "scale_value": float(scale), "keep_prob": 1.0, "head_num": head_num, "input_layout": input_layout, **windows,
    }  # fmt: skip


@by_card("npu_fusion_attention_v3", ignored=_HINTS)
def npu_fusion_attention_v3(
    ctx: Context, query: Value, key: Value, value: Value, head_num: int, input_layout: str, pse: Value | None,
    atten_mask: Value | None, scale: float, keep_prob: float, pre_tockens: int, next_tockens: int, inner_precise: int,
    sparse_mode: int,
) -> tuple[Any, ...]:  # fmt: skip
    """The result, the statistics of each row that the gradient reads, and numbers of a dropout that is none."""
    attributes = _attributes(
        ctx, head_num, input_layout, scale, keep_prob, pre_tockens=pre_tockens, next_tockens=next_tockens,
        inner_precise=inner_precise, sparse_mode=sparse_mode,
    )  # fmt: skip
    out, largest, total, weights, *numbers = ctx.meta
    metas = (largest, total, weights, out)
    *statistics, result = ctx.emit_many(
        "FlashAttentionScore", query, key, value, pse, None, None, atten_mask, attrs=attributes,
        dtype=[x.dtype for x in metas], shape=[x.shape for x in metas],
    )  # fmt: skip
    return (result, *statistics, *(ctx.fill(x.shape, 0, x.dtype) for x in numbers))


@by_card("npu_fusion_attention_grad", "npu_fusion_attention_grad_v3", ignored=_HINTS)
def npu_fusion_attention_grad(
    ctx: Context, query: Value, key: Value, value: Value, dy: Value, head_num: int, input_layout: str,
    pse: Value | None, atten_mask: Value | None, softmax_max: Value, softmax_sum: Value, attention_in: Value,
    scale_value: float, keep_prob: float, pre_tockens: int, next_tockens: int, inner_precise: int, sparse_mode: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of query, key and value; those of a shift of the scores and of a sink where they are asked for."""
    attributes = _attributes(
        ctx, head_num, input_layout, scale_value, keep_prob, pre_tockens=pre_tockens, next_tockens=next_tockens,
        inner_precise=inner_precise, sparse_mode=sparse_mode,
    )  # fmt: skip
    *metas, shift = ctx.meta[:4]
    of_shift = (metas[0].dtype, (0,)) if shift is None else (shift.dtype, shift.shape)
    *found, shifted = ctx.emit_many(
        "FlashAttentionScoreGrad", query, key, value, dy, pse, None, None, atten_mask, softmax_max, softmax_sum, None,
        attention_in, attrs=attributes, dtype=[*(x.dtype for x in metas), of_shift[0]],
        shape=[*(x.shape for x in metas), of_shift[1]],
    )  # fmt: skip
    others = (None if x is None else ctx.fill(x.shape, 0, x.dtype) for x in ctx.meta[4:])
    return (*found, None if shift is None else shifted, *others)
