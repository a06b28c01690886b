"""Prototypes: collective communication, alone and fused with matrix products."""

from __future__ import annotations

ROWS = r"""
AllGatherMatmul(x1, x2, bias?) -> (y, gather_out) {group: str; is_trans_a: bool = False; is_trans_b: bool
    = False; gather_index: int = 0; comm_turn: int = 0; rank_size: int = 0; is_gather_out: bool = True}
AllGatherMatmulV2(x1, x2, bias?, x1_scale?, x2_scale?, quant_scale?) -> (y, gather_out, amax_out) {group:
    str; is_trans_a: bool = False; is_trans_b: bool = False; gather_index: int = 0; comm_turn: int = 0;
    rank_size: int = 0; block_size: int = 0; group_size: int = 0; is_gather_out: bool = True; is_amax_out:
    bool = False; y_dtype: int = 28; comm_mode: str = "ai_cpu"}
AlltoAllMatmul(x1, x2, bias?, x1_scale?, x2_scale?, comm_scale?, x1_offset?, x2_offset?) -> (y,
    all2all_out) {group: str; world_size: int; all2all_axes: ints = [-2, -1]; y_dtype: int = 28;
    x1_quant_mode: int = 0; x2_quant_mode: int = 0; comm_quant_mode: int = 0; x1_quant_dtype: int = 28;
    comm_quant_dtype: int = 28; transpose_x1: bool = False; transpose_x2: bool = False; group_size: int =
    0; alltoall_out_flag: bool = True; comm_mode: str = "ai_cpu"}
AlltoAllvGroupedMatMul(gmm_x, gmm_weight, send_counts_tensor?, recv_counts_tensor?, mm_x?, mm_weight?) ->
    (gmm_y, mm_y, permute_out) {group: str; ep_world_size: int; send_counts: ints; recv_counts: ints;
    trans_gmm_weight: bool = False; trans_mm_weight: bool = False; permute_out_flag: bool = False;
    comm_mode: str = "ai_cpu"}
AlltoAllvQuantGroupedMatMul(gmm_x, gmm_weight, gmm_x_scale, gmm_weight_scale, send_counts_tensor?,
    recv_counts_tensor?, mm_x?, mm_weight?, mm_x_scale?, mm_weight_scale?) -> (gmm_y, mm_y, permute_out)
    {group: str; ep_world_size: int; send_counts: ints; recv_counts: ints; gmm_x_quant_mode: int;
    gmm_weight_quant_mode: int; trans_gmm_weight: bool = False; trans_mm_weight: bool = False;
    permute_out_flag: bool = False; mm_x_quant_mode: int = 0; mm_weight_quant_mode: int = 0; group_size:
    int = 0; y_dtype: int = 28; mm_dtype: int = 28; comm_mode: str = "ai_cpu"}
AttentionToFFN(x, session_id, micro_batch_id, layer_id, expert_ids, expert_rank_table, scales?,
    active_mask?) -> () {group: str; world_size: int; ffn_token_info_table_shape: ints;
    ffn_token_data_shape: ints; attn_token_info_table_shape: ints; moe_expert_num: int; quant_mode: int =
    0; sync_flag: int = 0; ffn_start_rank_id: int = 0}
AttentionWorkerCombine(schedule_context, expert_scales, layer_id) -> (y, next_layer_id) {hidden_size: int
    = 0; token_dtype: int = 0; need_schedule: int = 0}
AttentionWorkerScheduler(schedule_context) -> schedule_context
DistributeBarrier(x_ref, time_out?, elastic_info?) -> x_ref {group: str; world_size: int}
FFNToAttention(x, session_ids, micro_batch_ids, token_ids, expert_offsets, actual_token_num,
    attn_rank_table?) -> () {group: str; world_size: int; token_info_table_shape: ints; token_data_shape:
    ints}
FfnWorkerBatching(schedule_context) -> (y, group_list, session_ids, micro_batch_ids, token_ids,
    expert_offsets, dynamic_scale, actual_token_num) {expert_num: int; max_out_shape: ints; token_dtype:
    int = 0; need_schedule: int = 0; layer_num: int = 0}
FfnWorkerScheduler(schedule_context) -> schedule_context {sync_group_size: int = 1; execute_mode: int = 0}
GroupedMatMulAlltoAllv(gmm_x, gmm_weight, send_counts_tensor?, recv_counts_tensor?, mm_x?, mm_weight?) ->
    (y, mm_y) {group: str; ep_world_size: int; send_counts: ints; recv_counts: ints; trans_gmm_weight:
    bool = False; trans_mm_weight: bool = False; comm_mode: str = "ai_cpu"}
HcomAllGather(x) -> y {rank_size: int; group: str; fusion: int = 0; fusion_id: int = -1}
HcomAllGatherV(x, send_count, recv_counts, recv_displacements?) -> y {group: str}
HcomAllReduce(x) -> y {reduction: str; group: str; fusion: int = 1; fusion_id: int = -1}
HcomAllToAll(x) -> y {group: str}
HcomAllToAllV(send_data, send_counts, send_displacements, recv_counts, recv_displacements) -> recv_data
    {group: str}
HcomAllToAllVC(send_data, send_count_matrix) -> recv_data {rank: int; group: str; fusion: int = 0;
    fusion_id: int = -1}
HcomBroadcast(x*) -> y* {root_rank: int; group: str; fusion: int = 0; fusion_id: int = -1}
HcomCollRemoteLookup(table_id, keys) -> values {tag: int; insert_option: int = 0; group: str =
    "hccl_world_group"; max_num: int; embedding_dim: int; flags: int = 0}
HcomCollRemoteLookupPaired(table_id, keys) -> (values, indices, num_uniqued, ps_segments, ps_segments_num)
    {tag: int; insert_option: int = 0; group: str = "hccl_world_group"; max_num: int; embedding_dim: int;
    flags: int = 0}
HcomCollRemoteUpdate(table_id, keys, values) -> () {tag: int; group: str = "hccl_world_group"; max_num:
    int; embedding_dim: int}
HcomCollRemoteUpdatePaired(table_id, keys, values, indices, num_uniqued, ps_segments, ps_segments_num) ->
    () {tag: int; group: str = "hccl_world_group"; max_num: int; embedding_dim: int}
HcomGather(x) -> y {root_rank: int; group: str; rank_size: int}
HcomGatherAllToAllV(addrinfo, addrinfo_count_per_rank, recv_counts, recv_displacements) -> (recv_data,
    gathered) {group: str; dtype: dtype; addr_length: int}
HcomReceive() -> y {group: str; sr_tag: int; src_rank: int; shape: ints; dtype: dtype}
HcomReduce(x) -> y {root_rank: int; reduction: str; group: str; fusion: int = 0; fusion_id: int = -1}
HcomReduceScatter(x) -> y {reduction: str; fusion: int = 0; fusion_id: int = -1; group: str; rank_size:
    int}
HcomReduceScatterV(x, recv_count, send_counts, send_displacements?) -> y {reduction: str; group: str}
HcomRemoteLookup(keys, table_id) -> values {tag: int; insert_option: int = 0; max_num: int; embedding_dim:
    int}
HcomRemoteRead(remote) -> local {dtype: dtype}
HcomRemoteRefRead(remote, cache_var, local_offset) -> cache_var {dtype: dtype}
HcomRemoteScatterWrite(remote, local, local_offset?) -> ()
HcomRemoteWrite(remote, local) -> ()
HcomSend(x) -> () {group: str; sr_tag: int; dest_rank: int}
HorovodAllgather(x) -> y {rank_size: int}
HorovodAllreduce(x) -> y {reduce_op: int}
HorovodBroadcast(x) -> y {root_rank: int}
MatmulAllReduce(x1, x2, bias?, x3?, antiquant_scale?, antiquant_offset?, dequant_scale?, pertoken_scale?,
    comm_quant_scale_1?, comm_quant_scale_2?) -> y {group: str; reduce_op: str = "sum"; is_trans_a: bool =
    False; is_trans_b: bool = False; comm_turn: int = 0; antiquant_group_size: int = 0; group_size: int =
    0; y_dtype: int = 28; comm_quant_mode: int = 0; comm_mode: str = "ai_cpu"}
MatmulAlltoAll(x1, x2, bias?, x1_scale?, x2_scale?, comm_scale?, x1_offset?, x2_offset?) -> y {group: str;
    world_size: int; all2all_axes: ints = [-1, -2]; y_dtype: int = 28; x1_quant_mode: int = 0;
    x2_quant_mode: int = 0; comm_quant_mode: int = 0; comm_quant_dtype: int = 28; transpose_x1: bool =
    False; transpose_x2: bool = False; group_size: int = 0; comm_mode: str = "ai_cpu"}
MatmulReduceScatter(x1, x2, bias?) -> y {group: str; reduce_op: str = "sum"; is_trans_a: bool = False;
    is_trans_b: bool = False; comm_turn: int = 0; rank_size: int = 0}
MatmulReduceScatterV2(x1, x2, bias?, x1_scale?, x2_scale?, quant_scale?) -> (y, amax_out) {group: str;
    reduce_op: str = "sum"; is_trans_a: bool = False; is_trans_b: bool = False; comm_turn: int = 0;
    rank_size: int = 0; block_size: int = 0; group_size: int = 0; is_amax_out: bool = False; y_dtype: int
    = 28; comm_mode: str = "ai_cpu"}
MoeDistributeCombine(expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales, tp_send_counts?,
    x_active_mask?, activation_scale?, weight_scale?, group_list?, expand_scales?) -> x {group_ep: str;
    ep_world_size: int; ep_rank_id: int; moe_expert_num: int; group_tp: str = ""; tp_world_size: int = 0;
    tp_rank_id: int = 0; expert_shard_type: int = 0; shared_expert_num: int = 1; shared_expert_rank_num:
    int = 0; global_bs: int = 0; out_dtype: int = 0; comm_quant_mode: int = 0; group_list_type: int = 0}
MoeDistributeCombineAddRmsNorm(expand_x, expert_ids, assist_info, ep_send_counts, expert_scales, residual_x, gamma,
    tp_send_counts?, x_active_mask?, activation_scale?, weight_scale?, group_list?, expand_scales?,
    shared_expert_x?, elastic_info?, ori_x?, const_expert_alpha_1?, const_expert_alpha_2?,
    const_expert_v?) -> (y, rstd, x) {group_ep: str; ep_world_size: int; ep_rank_id: int; moe_expert_num:
    int; group_tp: str = ""; tp_world_size: int = 0; tp_rank_id: int = 0; expert_shard_type: int = 0;
    shared_expert_num: int = 1; shared_expert_rank_num: int = 0; global_bs: int = 0; out_dtype: int = 0;
    comm_quant_mode: int = 0; group_list_type: int = 0; comm_alg: str = ""; norm_eps: float = 1e-06;
    zero_expert_num: int = 0; copy_expert_num: int = 0; const_expert_num: int = 0}
MoeDistributeCombineV2(expand_x, expert_ids, assist_info_for_combine, ep_send_counts, expert_scales,
    tp_send_counts?, x_active_mask?, activation_scale?, weight_scale?, group_list?, expand_scales?,
    shared_expert_x?, elastic_info?, ori_x?, const_expert_alpha_1?, const_expert_alpha_2?,
    const_expert_v?, performance_info?) -> x {group_ep: str; ep_world_size: int; ep_rank_id: int;
    moe_expert_num: int; group_tp: str = ""; tp_world_size: int = 0; tp_rank_id: int = 0;
    expert_shard_type: int = 0; shared_expert_num: int = 1; shared_expert_rank_num: int = 0; global_bs:
    int = 0; out_dtype: int = 0; comm_quant_mode: int = 0; group_list_type: int = 0; comm_alg: str = "";
    zero_expert_num: int = 0; copy_expert_num: int = 0; const_expert_num: int = 0}
MoeDistributeDispatch(x, expert_ids, scales?, x_active_mask?, expert_scales?) -> (expand_x,
    dynamic_scales, expand_idx, expert_token_nums, ep_recv_count, tp_recv_count, expand_scales) {group_ep:
    str; ep_world_size: int; ep_rank_id: int; moe_expert_num: int; group_tp: str = ""; tp_world_size: int
    = 0; tp_rank_id: int = 0; expert_shard_type: int = 0; shared_expert_num: int = 1;
    shared_expert_rank_num: int = 0; quant_mode: int = 0; global_bs: int = 0; expert_token_nums_type: int
    = 1}
MoeDistributeDispatchV2(x, expert_ids, scales?, x_active_mask?, expert_scales?, elastic_info?,
    performance_info?) -> (expand_x, dynamic_scales, expand_idx, expert_token_nums, ep_recv_count,
    tp_recv_count, expand_scales) {group_ep: str; ep_world_size: int; ep_rank_id: int; moe_expert_num:
    int; group_tp: str = ""; tp_world_size: int = 0; tp_rank_id: int = 0; expert_shard_type: int = 0;
    shared_expert_num: int = 1; shared_expert_rank_num: int = 0; quant_mode: int = 0; global_bs: int = 0;
    expert_token_nums_type: int = 1; comm_alg: str = ""; zero_expert_num: int = 0; copy_expert_num: int =
    0; const_expert_num: int = 0; y_dtype: int = 0}
QuantGroupedMatMulAlltoAllv(gmm_x, gmm_weight, gmm_x_scale, gmm_weight_scale, send_counts_tensor?,
    recv_counts_tensor?, mm_x?, mm_weight?, mm_x_scale?, mm_weight_scale?, comm_quant_scale?) -> (y, mm_y)
    {group: str; ep_world_size: int; send_counts: ints; recv_counts: ints; gmm_x_quant_mode: int;
    gmm_weight_quant_mode: int; trans_gmm_weight: bool = False; trans_mm_weight: bool = False;
    mm_x_quant_mode: int = 0; mm_weight_quant_mode: int = 0; comm_quant_mode: int = 0; group_size: int =
    0; y_dtype: int = 28; mm_dtype: int = 28; comm_quant_dtype: int = 0; comm_mode: str = "ai_cpu"}
"""
