"""Fused attention of NPU model code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from air_geir.converters._registry import converts
from air_geir.lowering import Context, Value

Lengths = Sequence[Any] | None


def _lengths(ctx: Context, lengths: Any) -> Value | None:
    """Sequence lengths as a vector; tensors pass."""
    if lengths is None or isinstance(lengths, Value):
        return lengths
    return ctx.shape(list(lengths))


@converts("npu.npu_prompt_flash_attention.default")
def npu_prompt_flash_attention(
    ctx: Context, query: Value, key: Value, value: Value, *, padding_mask: Value | None = None,
    atten_mask: Value | None = None, pse_shift: Value | None = None, actual_seq_lengths: Lengths = None,
    deq_scale1: Value | None = None, quant_scale1: Value | None = None, deq_scale2: Value | None = None,
    quant_scale2: Value | None = None, quant_offset2: Value | None = None, num_heads: int = 1,
    scale_value: float = 1.0, pre_tokens: int = 2147483647, next_tokens: int = 0, input_layout: str = "BSH",
    num_key_value_heads: int = 0, actual_seq_lengths_kv: Lengths = None, sparse_mode: int = 0,
) -> Value:  # fmt: skip
    """npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? pse_shift=None, int[]? actual_seq_lengths=None, Tensor? deq_scale1=None, Tensor? quant_scale1=None, Tensor? deq_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, int num_heads=1, float scale_value=1.0, int pre_tokens=2147483647, int next_tokens=0, str input_layout="BSH", int num_key_value_heads=0, int[]? actual_seq_lengths_kv=None, int sparse_mode=0) -> Tensor"""  # noqa: E501
    if padding_mask is not None:
        ctx.refuse("padding_mask is reserved and has no operator input")
    return ctx.emit(
        "PromptFlashAttention", query, key, value, pse_shift, atten_mask, _lengths(ctx, actual_seq_lengths),
        _lengths(ctx, actual_seq_lengths_kv), deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2,
        num_heads=num_heads, scale_value=float(scale_value), pre_tokens=pre_tokens, next_tokens=next_tokens,
        input_layout=input_layout, num_key_value_heads=num_key_value_heads, sparse_mode=sparse_mode,
        dtype=ctx.out_dtype,
    )  # fmt: skip


@converts("npu.npu_incre_flash_attention.default")
def npu_incre_flash_attention(
    ctx: Context, query: Value, key: Value, value: Value, *, padding_mask: Value | None = None,
    atten_mask: Value | None = None, pse_shift: Value | None = None, actual_seq_lengths: Lengths = None,
    antiquant_scale: Value | None = None, antiquant_offset: Value | None = None, block_table: Value | None = None,
    dequant_scale1: Value | None = None, quant_scale1: Value | None = None, dequant_scale2: Value | None = None,
    quant_scale2: Value | None = None, quant_offset2: Value | None = None, kv_padding_size: Value | None = None,
    num_heads: int = 1, scale_value: float = 1.0, input_layout: str = "BSH", num_key_value_heads: int = 0,
    block_size: int = 0, inner_precise: int = 1,
) -> Value:  # fmt: skip
    """npu_incre_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? block_table=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1, float scale_value=1.0, str input_layout="BSH", int num_key_value_heads=0, int block_size=0, int inner_precise=1) -> Tensor"""  # noqa: E501
    if padding_mask is not None:
        ctx.refuse("padding_mask is reserved and has no operator input")
    return ctx.emit(
        "IncreFlashAttention", query, [key], [value], pse_shift, atten_mask, _lengths(ctx, actual_seq_lengths),
        dequant_scale1, quant_scale1, dequant_scale2, quant_scale2, quant_offset2, antiquant_scale,
        antiquant_offset, block_table, kv_padding_size, num_heads=num_heads, scale_value=float(scale_value),
        input_layout=input_layout, num_key_value_heads=num_key_value_heads, block_size=block_size,
        inner_precise=inner_precise, dtype=ctx.out_dtype,
    )  # fmt: skip


@converts("npu.npu_fused_infer_attention_score.default")
def npu_fused_infer_attention_score(
    ctx: Context, query: Value, key: Value, value: Value, *, pse_shift: Value | None = None,
    atten_mask: Value | None = None, actual_seq_lengths: Lengths = None, actual_seq_lengths_kv: Lengths = None,
    dequant_scale1: Value | None = None, quant_scale1: Value | None = None, dequant_scale2: Value | None = None,
    quant_scale2: Value | None = None, quant_offset2: Value | None = None, antiquant_scale: Value | None = None,
    antiquant_offset: Value | None = None, key_antiquant_scale: Value | None = None,
    key_antiquant_offset: Value | None = None, value_antiquant_scale: Value | None = None,
    value_antiquant_offset: Value | None = None, block_table: Value | None = None,
    query_padding_size: Value | None = None, kv_padding_size: Value | None = None,
    key_shared_prefix: Value | None = None, value_shared_prefix: Value | None = None,
    actual_shared_prefix_len: Lengths = None, query_rope: Value | None = None, key_rope: Value | None = None,
    key_rope_antiquant_scale: Value | None = None, num_heads: int = 1, scale: float = 1.0,
    pre_tokens: int = 2147483647, next_tokens: int = 2147483647, input_layout: str = "BSH",
    num_key_value_heads: int = 0, sparse_mode: int = 0, inner_precise: int = 0, block_size: int = 0,
    antiquant_mode: int = 0, key_antiquant_mode: int = 0, value_antiquant_mode: int = 0,
    softmax_lse_flag: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, ...) -> (Tensor, Tensor)"""
    optional: dict[str, Any] = {
        "pse_shift": pse_shift, "atten_mask": atten_mask,
        "actual_seq_lengths": _lengths(ctx, actual_seq_lengths),
        "actual_seq_lengths_kv": _lengths(ctx, actual_seq_lengths_kv), "dequant_scale1": dequant_scale1,
        "quant_scale1": quant_scale1, "dequant_scale2": dequant_scale2, "quant_scale2": quant_scale2,
        "quant_offset2": quant_offset2, "antiquant_scale": antiquant_scale, "antiquant_offset": antiquant_offset,
        "key_antiquant_scale": key_antiquant_scale, "key_antiquant_offset": key_antiquant_offset,
        "value_antiquant_scale": value_antiquant_scale, "value_antiquant_offset": value_antiquant_offset,
        "block_table": block_table, "query_padding_size": query_padding_size, "kv_padding_size": kv_padding_size,
        "key_shared_prefix": key_shared_prefix, "value_shared_prefix": value_shared_prefix,
        "actual_shared_prefix_len": _lengths(ctx, actual_shared_prefix_len), "query_rope": query_rope,
        "key_rope": key_rope, "key_rope_antiquant_scale": key_rope_antiquant_scale,
    }  # fmt: skip
    return ctx.emit_many(
        "FusedInferAttentionScore", query, [key], [value], **{k: v for k, v in optional.items() if v is not None},
        num_heads=num_heads, scale=float(scale), pre_tokens=pre_tokens, next_tokens=next_tokens,
        input_layout=input_layout, num_key_value_heads=num_key_value_heads, sparse_mode=sparse_mode,
        inner_precise=inner_precise, block_size=block_size, antiquant_mode=antiquant_mode,
        key_antiquant_mode=key_antiquant_mode, value_antiquant_mode=value_antiquant_mode,
        softmax_lse_flag=softmax_lse_flag, dtype=[m.dtype for m in ctx.meta],
    )  # fmt: skip
