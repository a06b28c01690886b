"""Prototypes: mixture-of-experts routing and grouped matrix products."""

from __future__ import annotations

ROWS = r"""
FFN(x, weight1, weight2, expert_tokens?, bias1?, bias2?, scale?, offset?, deq_scale1?, deq_scale2?,
    antiquant_scale1?, antiquant_scale2?, antiquant_offset1?, antiquant_offset2?) -> y {activation: str;
    inner_precise: int = 0; output_dtype: int = -1; tokens_index_flag: bool = False}
GroupedMatmul(x*, weight*, bias*, scale*, offset*, antiquant_scale*, antiquant_offset*, group_list?,
    per_token_scale?) -> y* {split_item: int = 0; dtype: int = 0; transpose_weight: bool = False;
    transpose_x: bool = False; group_type: int = -1; group_list_type: int = 0; act_type: int = 0;
    tuning_config: ints = [0]}
GroupedMatmulFinalizeRouting(x, w, scale?, bias?, pertoken_scale?, group_list?, shared_input?, logit?,
    row_index?, offset?) -> y {dtype: int = 0; shared_input_weight: float = 1.0; shared_input_offset: int
    = 0; transpose_x: bool = False; transpose_w: bool = False; output_bs: int = 0; group_list_type: int =
    1; tuning_config: ints = []}
GroupedMatmulSwigluQuantV2(x, x_scale, group_list, weight*, weight_scale*, weight_assist_matrix*, bias?,
    smooth_scale?) -> (y, y_scale) {dequant_mode: int = 0; dequant_dtype: int = 0; quant_mode: int = 0;
    quant_dtype: int = 1; transpose_weight: bool = False; group_list_type: int = 0; tuning_config: ints =
    [0]}
MoeComputeExpertTokens(sorted_experts) -> total_rows_before_expert {num_experts: int}
MoeFFN(x, expert_tokens, weight1, bias1?, weight2?, bias2?, scale?, offset?, deq_scale1?, deq_scale2?) ->
    y {activation: str = "gelu"}
MoeFinalizeRouting(expanded_x, x1, x2?, bias, scales, expanded_row_idx, expanded_expert_idx) -> y
MoeFinalizeRoutingV2(expanded_x, expanded_row_idx, x1?, x2?, bias?, scales?, expert_idx?) -> y
    {drop_pad_mode: int = 0; k: int = 1}
MoeGatingTopK(x, bias?, input_ids?, tid2eid?) -> (y, expert_idx, y2) {k: int; k_group: int = 1; group_count: int = 1;
    group_select_mode: int = 0; renorm: int = 0; norm_type: int = 0; out_flag: bool = False;
    routed_scaling_factor: float = 1.0; eps: float = 1e-20}
MoeGatingTopKSoftmax(x, finished?) -> (y, expert_idx, row_idx) {k: int}
MoeGatingTopKSoftmaxV2(x, finished?) -> (y, expert_idx, softmax_result) {k: int; renorm: int = 0;
    output_softmax_result_flag: bool = False}
MoeInitRouting(x, row_idx, expert_idx) -> (expanded_x, expanded_row_idx, expanded_expert_idx) {active_num:
    int}
MoeInitRoutingV3(x, expert_idx, scale?, offset?) -> (expanded_x, expanded_row_idx,
    expert_tokens_count_or_cumsum, expanded_scale) {active_num: int = -1; expert_capacity: int = -1;
    expert_num: int = -1; drop_pad_mode: int = 0; expert_tokens_num_type: int = 0; expert_tokens_num_flag:
    bool = False; quant_mode: int = -1; active_expert_range: ints = []; row_idx_type: int = 0}
MoeReRouting(tokens, expert_token_num_per_rank, per_token_scales?) -> (permute_tokens,
    permute_per_token_scales, permute_token_idx, expert_token_num) {expert_token_num_type: int = 1;
    idx_type: int = 0}
MoeUpdateExpert(expert_ids, eplb_table, expert_scales?, pruning_threshold?, active_mask?) ->
    (balanced_expert_ids, balanced_active_mask) {local_rank_id: int = -1; world_size: int = -1;
    balance_mode: int = 0}
QuantGroupedMatmulDequant(x, quantized_weight, weight_scale, group_list, bias?, x_scale?, x_offset?,
    smooth_scale?) -> y {x_quant_mode: str = "pertoken"; transpose_weight: bool = True}
QuantGroupedMatmulInplaceAdd(x1, x2, scale2, group_list, y, scale1?) -> y {group_list_type: int = 0;
    group_size: int = 0}
"""
