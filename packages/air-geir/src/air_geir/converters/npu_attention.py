"""Fused attention of NPU model code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters.npu import stored
from air_geir.ir import as_dim

Lengths = Sequence[Any] | None
Function = Callable[..., Any]


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
    """npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? pse_shift=None, int[]? actual_seq_lengths=None, Tensor? deq_scale1=None, Tensor? quant_scale1=None, Tensor? deq_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, int num_heads=1, float scale_value=1., int pre_tokens=2147483647, int next_tokens=0, str input_layout="BSH", int num_key_value_heads=0, int[]? actual_seq_lengths_kv=None, int sparse_mode=0) -> Tensor"""  # noqa: E501
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
    """npu_incre_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? block_table=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1, float scale_value=1., str input_layout="BSH", int num_key_value_heads=0, int block_size=0, int inner_precise=1) -> Tensor"""  # noqa: E501
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
    """npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None, Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? kv_padding_size=None, Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None, SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None, int num_heads=1, float scale=1., int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int value_antiquant_mode=0, bool softmax_lse_flag=False) -> (Tensor, Tensor)"""  # noqa: E501
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


@converts("npu.npu_fused_infer_attention_score_v2.default")
def npu_fused_infer_attention_score_v2(
    ctx: Context, query: Value, key: Value, value: Value, *, query_rope: Value | None = None,
    key_rope: Value | None = None, pse_shift: Value | None = None, atten_mask: Value | None = None,
    actual_seq_qlen: Lengths = None, actual_seq_kvlen: Lengths = None, block_table: Value | None = None,
    dequant_scale_query: Value | None = None, dequant_scale_key: Value | None = None,
    dequant_offset_key: Value | None = None, dequant_scale_value: Value | None = None,
    dequant_offset_value: Value | None = None, dequant_scale_key_rope: Value | None = None,
    quant_scale_out: Value | None = None, quant_offset_out: Value | None = None,
    quant_scale_p: Value | None = None, learnable_sink: Value | None = None, num_query_heads: int = 1,
    num_key_value_heads: int = 0, softmax_scale: float = 1.0, pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647, input_layout: str = "BSH", sparse_mode: int = 0, block_size: int = 0,
    query_quant_mode: int = 0, key_quant_mode: int = 0, value_quant_mode: int = 0, inner_precise: int = 0,
    return_softmax_lse: bool = False, query_dtype: Any = None, key_dtype: Any = None, value_dtype: Any = None,
    query_rope_dtype: Any = None, key_rope_dtype: Any = None, key_shared_prefix_dtype: Any = None,
    value_shared_prefix_dtype: Any = None, dequant_scale_query_dtype: Any = None,
    dequant_scale_key_dtype: Any = None, dequant_scale_value_dtype: Any = None,
    dequant_scale_key_rope_dtype: Any = None, out_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_fused_infer_attention_score_v2(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? dequant_scale_query=None, Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None, Tensor? dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None, Tensor? quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0, float softmax_scale=1., int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout="BSH", int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None, int? value_dtype=None, int? query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None, int? value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None, int? dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> (Tensor, Tensor)"""  # noqa: E501
    given = dict(locals())
    for name in (n for n in given if n.endswith("_dtype") and n != "out_dtype"):
        if given[name] is not None:
            ctx.refuse(
                f"{name}={given[name]} has no operator here", "pass tensors in the types they are meant in"
            )
    if quant_scale_p is not None:
        ctx.refuse("quant_scale_p has no operator input")
    optional: dict[str, Any] = {
        "pse_shift": pse_shift, "atten_mask": atten_mask, "actual_seq_lengths": _lengths(ctx, actual_seq_qlen),
        "actual_seq_lengths_kv": _lengths(ctx, actual_seq_kvlen), "quant_scale2": quant_scale_out,
        "quant_offset2": quant_offset_out, "key_antiquant_scale": dequant_scale_key,
        "key_antiquant_offset": dequant_offset_key, "value_antiquant_scale": dequant_scale_value,
        "value_antiquant_offset": dequant_offset_value, "block_table": block_table, "query_rope": query_rope,
        "key_rope": key_rope, "key_rope_antiquant_scale": dequant_scale_key_rope,
        "dequant_scale_query": dequant_scale_query, "learnable_sink": learnable_sink,
    }  # fmt: skip
    return ctx.emit_many(
        "FusedInferAttentionScore", query, [key], [value], **{k: v for k, v in optional.items() if v is not None},
        num_heads=num_query_heads, scale=float(softmax_scale), pre_tokens=pre_tokens, next_tokens=next_tokens,
        input_layout=input_layout, num_key_value_heads=num_key_value_heads, sparse_mode=sparse_mode,
        inner_precise=inner_precise, block_size=block_size, query_quant_mode=query_quant_mode,
        key_antiquant_mode=key_quant_mode, value_antiquant_mode=value_quant_mode,
        softmax_lse_flag=return_softmax_lse, dtype=[m.dtype for m in ctx.meta],
    )  # fmt: skip


def _into(ctx: Context, results: Sequence[Value], out: Sequence[Value]) -> tuple[Value, ...]:
    """The results in the tensors that were given for them; one of another size was given for nothing."""
    written = tuple(
        stored(ctx, target, result) if target.dims == tuple(as_dim(size) for size in meta.shape) else target
        for target, result, meta in zip(out, results, ctx.meta, strict=True)
    )
    ctx.written["out"] = written
    return written


def _arguments(attention: Function) -> list[str]:
    """The schema's arguments: a converter's parameters behind the context."""
    return list(inspect.signature(attention).parameters)[1:]


def _out_variant(attention: Function) -> Function:
    """The overload that is given the tensors for its results; it takes the arguments of the attention itself."""

    def into(
        ctx: Context, *args: Any, workspace: Value | None = None, out: Sequence[Value] = (), **options: Any
    ) -> tuple[Value, ...]:
        """npu_fused_infer_attention_score.out(Tensor query, ..., Tensor? workspace=None, Tensor[] out) -> (Tensor, Tensor)

        The engine plans scratch memory itself: the workspace is not used.
        """  # noqa: E501
        return _into(ctx, attention(ctx, *args, **options), out)

    into.arguments = [*_arguments(attention), "workspace", "out"]  # type: ignore[attr-defined]  # read by check
    return into


def _workspace(attention: Function) -> Function:
    """What the operator that asks for scratch memory becomes; it takes the arguments of the attention itself."""

    def workspace(ctx: Context, *anything: Any, **options: Any) -> Value:
        """_get_max_workspace(Tensor query, Tensor key, Tensor value, *, ...) -> Tensor

        The engine plans scratch memory itself: the tensor is there for whoever passes it on, and is not used.
        """
        return ctx.fill(ctx.out_shape, 0, ctx.out_dtype)

    workspace.arguments = _arguments(attention)  # type: ignore[attr-defined]  # read by check
    return workspace


for _version, _attention in (
    ("", npu_fused_infer_attention_score),
    ("_v2", npu_fused_infer_attention_score_v2),
):
    converts(f"npu.npu_fused_infer_attention_score{_version}.out")(_out_variant(_attention))
    converts(f"npu._npu_fused_infer_attention_score{_version}_get_max_workspace.default")(
        _workspace(_attention)
    )


@converts("npu.npu_fusion_attention.default")
def npu_fusion_attention(
    ctx: Context, query: Value, key: Value, value: Value, head_num: int, input_layout: str,
    pse: Value | None = None, padding_mask: Value | None = None, atten_mask: Value | None = None,
    scale: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = 2147483647, next_tockens: int = 2147483647,
    inner_precise: int = 0, prefix: Lengths = None, actual_seq_qlen: Lengths = None,
    actual_seq_kvlen: Lengths = None, sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False,
    softmax_layout: str = "", sink: Value | None = None, dropout_mask: Value | None = None, seed: int = 0,
    offset: int = 0,
) -> tuple[Any, ...]:  # fmt: skip
    """npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None, Tensor? dropout_mask=None, int seed=0, int offset=0) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)"""  # noqa: E501
    if keep_prob != 1.0:
        ctx.refuse(
            f"keep_prob {keep_prob} needs random numbers that the operator does not draw", "use keep_prob=1.0"
        )
    if sink is not None or softmax_layout:
        ctx.refuse("sink and softmax_layout have no operator input")
    optional: dict[str, Any] = {
        "real_shift": pse, "padding_mask": padding_mask, "atten_mask": atten_mask, "prefix": _lengths(ctx, prefix),
        "actual_seq_qlen": _lengths(ctx, actual_seq_qlen), "actual_seq_kvlen": _lengths(ctx, actual_seq_kvlen),
    }  # fmt: skip
    out, largest, total, weights = (m.dtype for m in ctx.meta[:4])
    found = ctx.emit_many(
        "FlashAttentionScore", query, key, value, **{k: v for k, v in optional.items() if v is not None},
        scale_value=float(scale), keep_prob=1.0, pre_tockens=pre_tockens, next_tockens=next_tockens,
        head_num=head_num, input_layout=input_layout, inner_precise=inner_precise, sparse_mode=sparse_mode,
        dtype=[largest, total, weights, out],
    )  # fmt: skip
    return found[3], found[0], found[1], found[2], 0, 0, 0
