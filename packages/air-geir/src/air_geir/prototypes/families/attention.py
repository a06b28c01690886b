"""Prototypes: attention, rotary embeddings and their caches."""

from __future__ import annotations

ROWS = r"""
AddLora(y, x, weightB, indices, weightA?) -> y {layer_idx: int = 0; scale: float = 0.001; y_offset: int =
    0; y_slice_size: int = -1}
ApplyRotaryPosEmb(query, key, cos, sin) -> (query, key) {layout: int = 1; rotary_mode: str = "half"}
AttentionLnQKV(x, kernel_query, kernel_key, kernel_value, gamma, beta, bias_query?, bias_key?,
    bias_value?) -> (norm, query_output, key_output, value_output, mean, variance) {epsilon: float =
    1e-07; trans_a: bool = False; trans_b: bool = False}
AttentionScore(query, key, value, padding_mask, scale, drop_mask?) -> (attention_score, softmax_output)
    {keep_prob: float = 1.0; query_transpose: bool = False; key_transpose: bool = False;
    bmm_score_transpose_a: bool = False; bmm_score_transpose_b: bool = False; softmax_axes: ints = [-1]}
AttentionUpdate(lse*, go*) -> (output, lse_m) {update_type: int; sp: int}
DequantRopeQuantKvcache(x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, offset_k?, offset_v?,
    weight_scale?, activation_scale?, bias?) -> (q, k, v, k_cache, v_cache) {size_splits: ints;
    quant_mode: str = "static"; layout: str = "BSND"; kv_output: bool = False; cache_mode: str = "contiguous"}
FlashAttentionScore(query, key, value, real_shift?, drop_mask?, padding_mask?, atten_mask?, prefix?,
    actual_seq_qlen?, actual_seq_kvlen?, q_start_idx?, kv_start_idx?) -> (softmax_max, softmax_sum,
    softmax_out, attention_out) {scale_value: float = 1.0; keep_prob: float = 1.0; pre_tockens: int =
    2147483647; next_tockens: int = 2147483647; head_num: int; input_layout: str; inner_precise: int = 1;
    sparse_mode: int = 0}
FusedCausalConv1d(x, weight, conv_states, query_start_loc?, cache_indices?, initial_state_mode?, bias?,
    num_accepted_tokens?, num_computed_tokens?, block_idx_first_scheduled_token?,
    block_idx_last_scheduled_token?, initial_state_idx?) -> (conv_states, y) {activation_mode: int = 0;
    pad_slot_id: int = -1; run_mode: int = 0; max_query_len: int = -1; residual_connection: int = 1;
    block_size: int = 128; conv_mode: int = 0}
FusedInferAttentionScore(query, key*, value*, pse_shift?, atten_mask?, actual_seq_lengths?,
    actual_seq_lengths_kv?, dequant_scale1?, quant_scale1?, dequant_scale2?, quant_scale2?,
    quant_offset2?, antiquant_scale?, antiquant_offset?, block_table?, query_padding_size?,
    kv_padding_size?, key_antiquant_scale?, key_antiquant_offset?, value_antiquant_scale?,
    value_antiquant_offset?, key_shared_prefix?, value_shared_prefix?, actual_shared_prefix_len?,
    query_rope?, key_rope?, key_rope_antiquant_scale?, dequant_scale_query?, learnable_sink?,
    q_start_idx?, kv_start_idx?) -> (attention_out, softmax_lse) {num_heads: int; scale: float = 1.0;
    pre_tokens: int = 2147483647; next_tokens: int = 2147483647; input_layout: str = "BSH";
    num_key_value_heads: int = 0; sparse_mode: int = 0; inner_precise: int = 0; block_size: int = 0;
    antiquant_mode: int = 0; softmax_lse_flag: bool = False; key_antiquant_mode: int = 0;
    value_antiquant_mode: int = 0; query_quant_mode: int = 0; pse_type: int = 0; out_dtype: int = 0}
IncreFlashAttention(query, key*, value*, pse_shift?, atten_mask?, actual_seq_lengths?, dequant_scale1?,
    quant_scale1?, dequant_scale2?, quant_scale2?, quant_offset2?, antiquant_scale?, antiquant_offset?,
    block_table?, kv_padding_size?) -> attention_out {num_heads: int; scale_value: float = 1.0;
    input_layout: str = "BSH"; num_key_value_heads: int = 1; block_size: int = 0; inner_precise: int = 1}
InplaceFusedCausalConv1d(x, weight, conv_states, query_start_loc?, cache_indices?, initial_state_mode?,
    bias?, num_accepted_tokens?, num_computed_tokens?, block_idx_first_scheduled_token?,
    block_idx_last_scheduled_token?, initial_state_idx?) -> (conv_states, x) {activation_mode: int = 0;
    pad_slot_id: int = -1; run_mode: int = 0; max_query_len: int = -1; residual_connection: int = 1;
    block_size: int = 128; conv_mode: int = 0}
InterleaveRope(x, cos, sin) -> y
KvQuantSparseFlashAttention(query, key, value, sparse_indices, key_dequant_scale?, value_dequant_scale?,
    block_table?, actual_seq_lengths_query?, actual_seq_lengths_kv?, sinks?) -> attention_out
    {scale_value: float; key_quant_mode: int; value_quant_mode: int; sparse_block_size: int = 1;
    layout_query: str = "BSND"; layout_kv: str = "BSND"; sparse_mode: int = 3; pre_tokens: int =
    9223372036854775807; next_tokens: int = 9223372036854775807; attention_mode: int = 0;
    quant_scale_repo_mode: int = 1; tile_size: int = 128; rope_head_dim: int = 64}
KvRmsNormRopeCache(kv, gamma, cos, sin, index, k_cache, ckv_cache, k_rope_scale?, c_kv_scale?,
    k_rope_offset?, c_kv_offset?, v?) -> (k_cache, ckv_cache, k_rope, c_kv) {epsilon: float = 1e-05;
    cache_mode: str = 'Norm'; is_output_kv: bool = False}
LightningIndexer(query, key, weights, actual_seq_lengths_query?, actual_seq_lengths_key?, block_table?) ->
    (sparse_indices, sparse_values) {layout_query: str = "BSND"; layout_key: str = "BSND"; sparse_count:
    int = 2048; sparse_mode: int = 3; pre_tokens: int = 9223372036854775807; next_tokens: int =
    9223372036854775807; return_values: bool = False}
MaskedCausalConv1d(input, weight, mask?) -> output
MlaProlog(token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv,
    rope_sin, rope_cos, cache_index, kv_cache, kr_cache, dequant_scale_x?, dequant_scale_w_dq?,
    dequant_scale_w_uq_qr?, dequant_scale_w_dkv_kr?, quant_scale_ckv?, quant_scale_ckr?,
    smooth_scales_cq?) -> (query, query_rope, kv_cache, kr_cache) {rmsnorm_epsilon_cq: float = 1e-05;
    rmsnorm_epsilon_ckv: float = 1e-05; cache_mode: str = "PA_BSND"}
MlaPrologV2(token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq,
    rmsnorm_gamma_ckv, rope_sin, rope_cos, cache_index, kv_cache, kr_cache, dequant_scale_x?,
    dequant_scale_w_dq?, dequant_scale_w_uq_qr?, dequant_scale_w_dkv_kr?, quant_scale_ckv?,
    quant_scale_ckr?, smooth_scales_cq?) -> (query, query_rope, kv_cache, kr_cache, dequant_scale_q_nope)
    {rmsnorm_epsilon_cq: float = 1e-05; rmsnorm_epsilon_ckv: float = 1e-05; cache_mode: str = "PA_BSND"}
MlaPrologV3(token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq,
    rmsnorm_gamma_ckv, rope_sin, rope_cos, kv_cache, kr_cache, cache_index?, dequant_scale_x?,
    dequant_scale_w_dq?, dequant_scale_w_uq_qr?, dequant_scale_w_dkv_kr?, quant_scale_ckv?,
    quant_scale_ckr?, smooth_scales_cq?, actual_seq_len?, k_nope_clip_alpha?) -> (query, query_rope,
    kv_cache, kr_cache, dequant_scale_q_nope, query_norm, dequant_scale_q_norm) {rmsnorm_epsilon_cq: float
    = 1e-05; rmsnorm_epsilon_ckv: float = 1e-05; cache_mode: str = "PA_BSND"; query_norm_flag: bool =
    False; weight_quant_mode: int = 0; kv_cache_quant_mode: int = 0; query_quant_mode: int = 0;
    ckvkr_repo_mode: int = 0; quant_scale_repo_mode: int = 0; tile_size: int = 128; qc_qr_scale: float =
    1.0; kc_scale: float = 1.0}
MultiHeadAttention(query, key, value, query_weight, key_weight, value_weight, attn_mask, out_proj_weight,
    query_bias?, key_bias?, value_bias?, out_proj_bias?, dropout_mask_input?) -> (y, dropout_mask,
    query_res, key_res, value_res, attn_scores, attn_res, context) {attn_head_num: int; attn_dim_per_head:
    int; src_len: int; tgt_len: int; keep_prob: float; softmax_use_float: bool}
PromptFlashAttention(query, key, value, pse_shift?, atten_mask?, actual_seq_lengths?,
    actual_seq_lengths_kv?, deq_scale1?, quant_scale1?, deq_scale2?, quant_scale2?, quant_offset2?) ->
    attention_out {num_heads: int; scale_value: float = 1.0; pre_tokens: int = 214748647; next_tokens: int
    = 0; input_layout: str = "BSH"; num_key_value_heads: int = 1; sparse_mode: int = 0; inner_precise: int
    = 1}
QkvRmsNormRopeCache(qkv, q_gamma, k_gamma, cos, sin, index, q_out, k_cache, v_cache, k_scale?, v_scale?,
    k_offset?, v_offset?) -> (q_out, k_cache, v_cache, q_out_before_quant, k_out_before_quant,
    v_out_before_quant) {qkv_size: ints; head_nums: ints; epsilon: float = 1e-06; cache_mode: str =
    "PA_NZ"; is_output_qkv: bool = False}
QuantLightningIndexer(query, key, weights, query_dequant_scale, key_dequant_scale,
    actual_seq_lengths_query?, actual_seq_lengths_key?, block_table?) -> sparse_indices {query_quant_mode:
    int; key_quant_mode: int; layout_query: str = "BSND"; layout_key: str = "BSND"; sparse_count: int =
    2048; sparse_mode: int = 3; pre_tokens: int = 9223372036854775807; next_tokens: int =
    9223372036854775807}
RecurrentGatedDeltaRule(query, key, value, beta, state, actual_seq_lengths, ssm_state_indices, g?, gk?,
    num_accepted_tokens?) -> (out, state) {scale_value: float = 1.0}
RotaryMul(x, r1, r2) -> y
RotaryPositionEmbedding(x, cos, sin, rotate?) -> y {mode: int = 0}
ScatterPaKvCache(key, key_cache, slot_mapping, value, value_cache, compress_lens?, compress_seq_offset?,
    seq_lens?) -> (key_cache, value_cache) {cache_mode: str = "Norm"; scatter_mode: str = "None"; strides:
    ints = [1,1]; offsets: ints = [0,0]}
SparseFlashAttention(query, key, value, sparse_indices, block_table?, actual_seq_lengths_query?,
    actual_seq_lengths_kv?, query_rope?, key_rope?, sinks?) -> (attention_out, softmax_max, softmax_sum)
    {scale_value: float; sparse_block_size: int = 1; layout_query: str = "BSND"; layout_kv: str = "BSND";
    sparse_mode: int = 3; pre_tokens: int = 9223372036854775807; next_tokens: int = 9223372036854775807;
    attention_mode: int = 0; return_softmax_lse: bool = False}
SwinAttentionFFN(x1, x2, bias) -> y {shifts: ints = []}
SwinAttentionScore(query, key, value, padding_mask1?, padding_mask2?, scale, drop_mask?) ->
    (attention_score, softmax) {keep_prob: float = 1.0; query_transpose: bool = False; key_transpose: bool
    = False; bmm_score_transpose_a: bool = False; bmm_score_transpose_b: bool = False; softmax_axes: ints
    = []}
TomeMerge(token_a, token_b, topk_indice, arg_max) -> (unmerge_token_a, unreduce_token_b, unreduce_count)
    {top_rate: float = 0.5}
TomeUnmerge(atten_out, Ori_IndiceA, Ori_IndiceB, TOPK_Indice, Arg_Max) -> unZipToken {topRRate: float =
    0.5}
"""
