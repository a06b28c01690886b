"""Mixtures of experts in NPU model code: routing and grouped products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts


def _dtypes(ctx: Context) -> list[torch.dtype]:
    """The types torch gives for the results."""
    return [m.dtype for m in ctx.meta]


@converts("npu.npu_moe_gating_top_k_softmax.default")
def npu_moe_gating_top_k_softmax(
    ctx: Context, x: Value, finished: Value | None = None, k: int = 1
) -> tuple[Value, ...]:
    """npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)"""
    return ctx.emit_many("MoeGatingTopKSoftmax", x, finished, k=k, dtype=_dtypes(ctx))


@converts("npu.npu_moe_compute_expert_tokens.default")
def npu_moe_compute_expert_tokens(
    ctx: Context, sorted_expert_for_source_row: Value, num_expert: int
) -> Value:
    """npu_moe_compute_expert_tokens(Tensor sorted_expert_for_source_row, int num_expert) -> Tensor"""
    return ctx.emit("MoeComputeExpertTokens", sorted_expert_for_source_row, num_experts=num_expert)


@converts("npu.npu_moe_gating_top_k_softmax_v2.default")
def npu_moe_gating_top_k_softmax_v2(
    ctx: Context, x: Value, k: int = 1, *, finished: Value | None = None, renorm: int = 0,
    output_softmax: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_moe_gating_top_k_softmax_v2(Tensor x, *, int k=1, Tensor? finished=None, int? renorm=0, bool? output_softmax=False) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    if renorm:
        ctx.refuse(f"renorm {renorm} has no operator here", "use renorm=0")
    return ctx.emit_many("MoeGatingTopKSoftmaxV2", x, finished, k=k, dtype=_dtypes(ctx))


@converts("npu.npu_moe_gating_top_k.default")
def npu_moe_gating_top_k(
    ctx: Context, x: Value, k: int, *, bias: Value | None = None, input_ids: Value | None = None,
    tid2eid: Value | None = None, k_group: int = 1, group_count: int = 1, group_select_mode: int = 0,
    renorm: int = 0, norm_type: int = 0, out_flag: bool = False, routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, Tensor? input_ids=None, Tensor? tid2eid=None, int k_group=1, int group_count=1, int group_select_mode=0, int renorm=0, int norm_type=0, bool out_flag=False, float routed_scaling_factor=1., float eps=9.9999999999999995e-21) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many(
        "MoeGatingTopK", x, bias, input_ids, tid2eid, k=k, k_group=k_group, group_count=group_count,
        group_select_mode=group_select_mode, renorm=renorm, norm_type=norm_type, out_flag=out_flag,
        routed_scaling_factor=float(routed_scaling_factor), eps=float(eps), dtype=_dtypes(ctx),
    )  # fmt: skip


@converts("npu.npu_moe_init_routing_v2.default")
def npu_moe_init_routing_v2(
    ctx: Context, x: Value, expert_idx: Value, *, scale: Value | None = None, offset: Value | None = None,
    active_num: int = -1, expert_capacity: int = -1, expert_num: int = -1, drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0, expert_tokens_num_flag: bool = False, quant_mode: int = -1,
    active_expert_range: Sequence[int] = (), row_idx_type: int = 0, x_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_moe_init_routing_v2(Tensor x, Tensor expert_idx, *, Tensor? scale=None, Tensor? offset=None, int active_num=-1, int expert_capacity=-1, int expert_num=-1, int drop_pad_mode=0, int expert_tokens_num_type=0, bool expert_tokens_num_flag=False, int quant_mode=-1, int[2] active_expert_range=[], int row_idx_type=0, int? x_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    if x_dtype is not None:
        ctx.refuse(f"x_dtype={x_dtype} has no operator here", "pass tensors in the types they are meant in")
    return ctx.emit_many(
        "MoeInitRoutingV3", x, expert_idx, scale, offset, active_num=active_num, expert_capacity=expert_capacity,
        expert_num=expert_num, drop_pad_mode=drop_pad_mode, expert_tokens_num_type=expert_tokens_num_type,
        expert_tokens_num_flag=expert_tokens_num_flag, quant_mode=quant_mode,
        active_expert_range=list(active_expert_range), row_idx_type=row_idx_type, dtype=_dtypes(ctx),
    )  # fmt: skip


@converts("npu.npu_moe_finalize_routing.default")
def npu_moe_finalize_routing(
    ctx: Context, expanded_permuted_rows: Value, skip1: Value | None, skip2: Value | None, bias: Value | None,
    scales: Value | None, expanded_src_to_dst_row: Value, export_for_source_row: Value | None,
    drop_pad_mode: int | None = 0, k: int | None = 1,
) -> Value:  # fmt: skip
    """npu_moe_finalize_routing(Tensor expanded_permuted_rows, Tensor? skip1, Tensor? skip2, Tensor? bias, Tensor? scales, Tensor expanded_src_to_dst_row, Tensor? export_for_source_row, int? drop_pad_mode=0, int? k=1) -> Tensor"""  # noqa: E501
    return ctx.emit(
        "MoeFinalizeRoutingV2", expanded_permuted_rows, expanded_src_to_dst_row, skip1, skip2, bias, scales,
        export_for_source_row, drop_pad_mode=drop_pad_mode or 0, K=k or 1, dtype=ctx.out_dtype,
    )  # fmt: skip


Lists = Sequence[Value] | None
_RESULT = {torch.int8: -1, torch.bfloat16: 1, torch.int32: 2}
"""How GroupedMatmul spells the type of its results; 0 for the others."""


def _grouped(
    ctx: Context, x: Sequence[Value], weight: Sequence[Value], group_list: Value | None, lists: dict[str, Lists],
    per_token: Lists, **attrs: Any,
) -> tuple[Value, ...]:  # fmt: skip
    if attrs["split_item"] not in (0, 1, 2, 3):
        ctx.refuse(f"split_item {attrs['split_item']} is unknown", "use 0, 1, 2 or 3")
    if weight[0].dtype == torch.int32:
        ctx.refuse("weights of four bits, eight to a number, have no type in torch", "use weights of 8 bits")
    if per_token and len(per_token) > 1:
        ctx.refuse("one per_token_scale for every x has no operator here", "pass one tensor")
    inputs: dict[str, Any] = {name: list(values) for name, values in lists.items() if values}
    if group_list is not None:
        inputs["group_list"] = group_list
    if per_token:
        inputs["per_token_scale"] = per_token[0]
    dtypes = _dtypes(ctx)
    return ctx.emit_many(
        "GroupedMatmul", list(x), list(weight), **inputs, dtype=dtypes, num_outputs=len(dtypes),
        attrs={**attrs, "dtype": _RESULT.get(dtypes[0], 0)},
    )  # fmt: skip


@converts("npu.npu_grouped_matmul.default")
def npu_grouped_matmul(
    ctx: Context, x: Sequence[Value], weight: Sequence[Value], *, bias: Lists = None, scale: Lists = None,
    offset: Lists = None, antiquant_scale: Lists = None, antiquant_offset: Lists = None,
    per_token_scale: Lists = None, group_list: Value | None = None, activation_input: Lists = None,
    activation_quant_scale: Lists = None, activation_quant_offset: Lists = None, split_item: int | None = 0,
    group_type: int | None = None, group_list_type: int | None = 0, act_type: int | None = 0,
    tuning_config: Sequence[int] | None = None, output_dtype: Any = None, x_dtype: Any = None,
    weight_dtype: Any = None, scale_dtype: Any = None, per_token_scale_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, Tensor[]? per_token_scale=None, Tensor? group_list=None, Tensor[]? activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, int? group_type=None, int? group_list_type=0, int? act_type=0, int[]? tuning_config=None, int? output_dtype=None, int? x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, int? per_token_scale_dtype=None) -> Tensor[]"""  # noqa: E501
    for name, value in (("x_dtype", x_dtype), ("weight_dtype", weight_dtype), ("scale_dtype", scale_dtype),
                        ("per_token_scale_dtype", per_token_scale_dtype)):  # fmt: skip
        if value is not None:
            ctx.refuse(f"{name}={value} has no operator here", "pass tensors in the types they are meant in")
    for name, values in (("activation_input", activation_input), ("activation_quant_scale", activation_quant_scale),
                         ("activation_quant_offset", activation_quant_offset)):  # fmt: skip
        if values:
            ctx.refuse(f"{name} is reserved and has no operator input")
    lists = {"bias": bias, "scale": scale, "offset": offset, "antiquant_scale": antiquant_scale,
             "antiquant_offset": antiquant_offset}  # fmt: skip
    return _grouped(
        ctx, x, weight, group_list, lists, per_token_scale, split_item=split_item or 0,
        group_type=-1 if group_type is None else group_type, group_list_type=group_list_type or 0,
        act_type=act_type or 0, tuning_config=list(tuning_config or [0]),
    )  # fmt: skip


@converts("npu.npu_grouped_matmul.List")
def npu_grouped_matmul_list(
    ctx: Context, x: Sequence[Value], weight: Sequence[Value], *, bias: Lists = None, scale: Lists = None,
    offset: Lists = None, antiquant_scale: Lists = None, antiquant_offset: Lists = None,
    per_token_scale: Lists = None, group_list: Sequence[int] | None = None, activation_input: Lists = None,
    activation_quant_scale: Lists = None, activation_quant_offset: Lists = None, split_item: int | None = 0,
    group_type: int | None = None, group_list_type: int | None = 0, act_type: int | None = 0,
    output_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_grouped_matmul.List(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, Tensor[]? per_token_scale=None, int[]? group_list=None, Tensor[]? activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, int? group_type=None, int? group_list_type=0, int? act_type=0, ScalarType? output_dtype=None) -> Tensor[]"""  # noqa: E501
    if group_type is None and group_list:
        group_type = 0
    ends = ctx.const(list(group_list), torch.int64) if group_list else None
    result: tuple[Value, ...] = npu_grouped_matmul(
        ctx, x, weight, bias=bias, scale=scale, offset=offset, antiquant_scale=antiquant_scale,
        antiquant_offset=antiquant_offset, per_token_scale=per_token_scale, group_list=ends,
        activation_input=activation_input, activation_quant_scale=activation_quant_scale,
        activation_quant_offset=activation_quant_offset, split_item=split_item, group_type=group_type,
        group_list_type=group_list_type, act_type=act_type,
    )  # fmt: skip
    return result
