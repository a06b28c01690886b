"""Fused operators of NPU model code: the references of the cards, by the inputs and attributes of Ascend IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from air_fxpasses.npu_cards import reference
from air_geir.reference.kernels._of_card import calling, register_rows
from air_geir.reference.kernels._registry import Operator, Run, kernel

_ROWS = """
RmsNorm(input gamma) = npu_rms_norm {epsilon}
AddRmsNorm(x1 x2 gamma) = npu_add_rms_norm {epsilon}
AddRmsNormCast(x1 x2 gamma) = npu_add_rms_norm_cast {epsilon}
RotaryMul(input r1 r2) = npu_rotary_mul
InterleaveRope(x cos sin) = npu_interleave_rope
GroupNormSilu(input weight bias) = npu_group_norm_silu {group=num_groups eps}
SwiGlu(input) = npu_swiglu {dim}
GeGluV2(input) = npu_geglu {dim approximate activate_left}
ClippedSwiglu(x group_index) = npu_clipped_swiglu {dim alpha limit bias interleaved}
DynamicQuant(input smooth_scales group_index) = npu_dynamic_quant {dst_type=type(dst_type)}
AscendQuantV2(input scales zero_points) = npu_quantize {axis dtype=type(dst_type) div_mode:=False}
AddRmsNormQuant(x1 x2 gamma scales1 scales2 zero_points1 zero_points2 beta) = npu_add_rms_norm_quant
    {axis epsilon div_mode dst_type=type(dst_type)}
AddRmsNormDynamicQuant(x1 x2 gamma smooth_scale1 smooth_scale2 beta) = npu_add_rms_norm_dynamic_quant
    {epsilon output_mask y_dtype=type(dst_type)}
TransQuantParamV2(scale offset) = npu_trans_quant_param {round_mode}
QuantUpdateScatter(input indices updates quant_scales quant_zero_points) = npu_quant_scatter_
    {reduce axis quant_axis round_mode}
KvRmsNormRopeCache(kv gamma cos sin index k_cache ckv_cache k_rope_scale c_kv_scale k_rope_offset c_kv_offset v)
    = npu_kv_rmsnorm_rope_cache {epsilon cache_mode is_output_kv}
ScatterPaKvCache(key key_cache slot_mapping value value_cache compress_lens compress_seq_offsets seq_lens)
    = npu_scatter_pa_kv_cache {cache_mode} [key_cache value_cache]
MlaPrologV3(token_x weight_dq weight_uq_qr weight_uk weight_dkv_kr rmsnorm_gamma_cq rmsnorm_gamma_ckv rope_sin rope_cos
    kv_cache kr_cache cache_index dequant_scale_x dequant_scale_w_dq dequant_scale_w_uq_qr dequant_scale_w_dkv_kr
    quant_scale_ckv quant_scale_ckr smooth_scales_cq actual_seq_len k_nope_clip_alpha) = npu_mla_prolog_v3
    {rmsnorm_epsilon_cq rmsnorm_epsilon_ckv cache_mode query_norm_flag weight_quant_mode kv_cache_quant_mode
    query_quant_mode ckvkr_repo_mode qc_qr_scale kc_scale} [0 1 kv_cache kr_cache 2 3 4]
MoeGatingTopKSoftmax(x finished) = npu_moe_gating_top_k_softmax {k}
MoeGatingTopKSoftmaxV2(x finished) = npu_moe_gating_top_k_softmax_v2
    {k renorm output_softmax=output_softmax_result_flag}
MoeComputeExpertTokens(sorted_expert_for_source_row) = npu_moe_compute_expert_tokens {num_expert=num_experts}
MoeGatingTopK(x bias input_ids tid2eid) = npu_moe_gating_top_k
    {k k_group group_count group_select_mode renorm norm_type out_flag routed_scaling_factor eps}
MoeInitRoutingV3(x expert_idx scale offset) = npu_moe_init_routing_v2
    {active_num expert_capacity expert_num drop_pad_mode expert_tokens_num_type expert_tokens_num_flag quant_mode
    active_expert_range row_idx_type}
MoeFinalizeRoutingV2(expanded_permuted_rows expanded_src_to_dst_row skip1 skip2 bias scales export_for_source_row)
    = npu_moe_finalize_routing {drop_pad_mode k}
PromptFlashAttention(query key value pse_shift atten_mask actual_seq_lengths# actual_seq_lengths_kv# deq_scale1
    quant_scale1 deq_scale2 quant_scale2 quant_offset2) = npu_prompt_flash_attention
    {num_heads num_key_value_heads input_layout scale_value pre_tokens next_tokens sparse_mode ~inner_precise}
IncreFlashAttention(query *key *value pse_shift atten_mask actual_seq_lengths# dequant_scale1 quant_scale1
    dequant_scale2 quant_scale2 quant_offset2 antiquant_scale antiquant_offset block_table kv_padding_size)
    = npu_incre_flash_attention
    {num_heads num_key_value_heads input_layout scale_value ~inner_precise ~block_size}
FusedInferAttentionScore(query *key *value pse_shift atten_mask actual_seq_qlen# actual_seq_kvlen# dequant_scale1
    quant_scale1 dequant_scale2 quant_scale_out quant_offset_out antiquant_scale antiquant_offset block_table
    query_padding_size kv_padding_size dequant_scale_key dequant_offset_key dequant_scale_value dequant_offset_value
    key_shared_prefix value_shared_prefix actual_shared_prefix_len query_rope key_rope dequant_scale_key_rope
    dequant_scale_query learnable_sink q_start_idx kv_start_idx) = npu_fused_infer_attention_score_v2
    {num_query_heads=num_heads num_key_value_heads input_layout softmax_scale=scale pre_tokens next_tokens sparse_mode
    return_softmax_lse=softmax_lse_flag ~inner_precise ~block_size}
FlashAttentionScore(query key value pse dropout_mask padding_mask atten_mask prefix actual_seq_qlen# actual_seq_kvlen#
    - -) = npu_fusion_attention
    {head_num input_layout scale=scale_value keep_prob pre_tockens next_tockens sparse_mode ~inner_precise} [1 2 3 0]
"""
register_rows(_ROWS)

_TURNS = ("half", "interleave", "quarter")
_ZERO_POINTS = {"torch.qint8": torch.qint8, "torch.quint8": torch.quint8, "torch.qint32": torch.qint32}


@kernel("RotaryPositionEmbedding")
def rotary_position_embedding(op: Operator) -> Run:
    """RotaryMul with the turn of a mode: halves (0), neighbouring pairs (1), quarters (2) or a matrix."""
    mode = int(op.attr("mode"))
    if mode not in range(len(_TURNS)):
        raise op.refuse(f"mode {mode} is not supported")
    return calling(op, "npu_rotary_mul", "input r1 r2 rotate", {"rotary_mode": _TURNS[mode]})


@kernel("ApplyRotaryPosEmb", writes={"query": 0, "key": 1})
def apply_rotary_pos_emb(op: Operator) -> Run:
    """Rotary positions of query and key, in place."""
    turned = calling(op, "npu_apply_rotary_pos_emb", "query key cos sin", op.keywords("rotary_mode"))

    def run(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        for x, y in zip((query, key), turned(query, key, cos, sin), strict=True):
            x.copy_(y)
        return query, key

    return run


@kernel("Quantize")
def quantize(op: Operator) -> Run:
    """Over a scale, plus a zero point, rounded."""
    name = op.attr("dtype")
    if name not in _ZERO_POINTS:
        raise op.refuse(f"dtype {name!r} is not supported")
    given = {"dtype": _ZERO_POINTS[name], "axis": int(op.attr("axis"))}
    return calling(op, "npu_quantize", "input scales zero_points", given)


@kernel("DynamicQuantV2")
def dynamic_quant(op: Operator) -> Run:
    """Scales found by row, by column or for all; offsets, which an asymmetric range has, are zero."""
    if not op.attr("is_symmetrical"):
        raise op.refuse("an asymmetric range is not supported")
    given = op.keywords("dst_type=type(dst_type) quant_mode dst_type_max")
    symmetric = calling(op, "npu_dynamic_quant", "input smooth_scales group_index", given)

    def run(*values: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        quantised, scale = symmetric(*values)
        return quantised, scale, torch.zeros_like(scale)

    return run


@kernel("QuantBatchMatmulV3")
def quant_matmul(op: Operator) -> Run:
    """int8 product accumulated exactly, scaled per channel (and per token) to the output type."""
    given = op.keywords("output_dtype=type(dtype)")
    compute = calling(op, "npu_quant_matmul", "x1 x2 scale offset bias pertoken_scale", given)
    return _turned(op, compute, "transpose_x1", "transpose_x2")


@kernel("WeightQuantBatchMatmulV2")
def weight_quant_matmul(op: Operator) -> Run:
    """x times a weight of 8 bits, shifted and scaled first: per column, for all, or per group of rows."""
    ports = "x weight antiquant_scale antiquant_offset quant_scale quant_offset bias"
    compute = calling(op, "npu_weight_quant_batchmatmul", ports, op.keywords("antiquant_group_size"))
    return _turned(op, compute, "transpose_x", "transpose_weight")


def _turned(op: Operator, compute: Run, first: str, second: str) -> Run:
    """The first two inputs turned where the attributes say so."""
    turns = [bool(op.attr(name)) for name in (first, second)]

    def run(*values: Tensor | None) -> Tensor:
        turned = [x.transpose(-1, -2) if turn and x is not None else x for x, turn in zip(values, turns)]  # noqa: B905
        result: Tensor = compute(*turned, *values[2:])
        return result

    return run


@kernel("GroupedMatmul")
def grouped_matmul(op: Operator) -> Run:
    """One product per expert, of consecutive rows with the expert's weight, or of each x with its weight."""
    turns_x, turns_weight = bool(op.attr("transpose_x")), bool(op.attr("transpose_weight"))
    given = {name: int(op.attr(name)) for name in ("split_item", "group_type", "group_list_type", "act_type")}
    if given["group_list_type"] not in (0, 1) or (given["group_type"] == 2 and not turns_x):
        raise op.refuse("pairs of expert and count, and columns of x that lie in rows, are not supported")
    ports = "x weight bias scale offset antiquant_scale antiquant_offset group_list per_token_scale"
    compute = calling(op, "npu_grouped_matmul", ports, {**given, "output_dtype": op.output_dtypes[0]})

    def run(x: Sequence[Tensor], weight: Sequence[Tensor], *lists_and_ends: Any) -> list[Tensor]:
        *lists, ends, per_token = lists_and_ends
        lists = [[t for t in given if t.numel()] for given in lists]
        left = [t.t() if turns_x else t for t in x]
        right = [t.transpose(-1, -2) if turns_weight else t for t in weight]
        results: list[Tensor] = compute(left, right, *lists, ends, None if per_token is None else [per_token])
        return results

    return run


@kernel("FlashAttentionScoreGrad")
def flash_attention_score_grad(op: Operator) -> Run:
    """What autograd makes of the forward reference, computed anew: the saved statistics are not read."""
    if op.attr("keep_prob") != 1.0:
        raise op.refuse("dropout is not supported")
    settings = op.keywords("scale=scale_value pre_tockens next_tockens sparse_mode head_num input_layout")
    forward = reference("npu_fusion_attention")

    def run(
        query: Tensor, key: Tensor, value: Tensor, dy: Tensor, pse: Tensor | None, *others: Tensor | None
    ) -> tuple[Tensor, ...]:
        mask = others[2]
        leaves = [query, key, value, *(() if pse is None else (pse,))]

        def attended(q: Tensor, k: Tensor, v: Tensor, shift: Tensor | None = None) -> Any:
            return forward(q, k, v, pse=shift, atten_mask=mask, **settings)[0]

        pull_back: Any = torch.func.vjp(attended, *leaves)[1]
        gradients: tuple[Tensor, ...] = pull_back(dy)
        return gradients if pse is not None else (*gradients, dy.new_empty(0))

    return run
