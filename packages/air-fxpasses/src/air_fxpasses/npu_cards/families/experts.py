"""Mixture of experts: which experts a token goes to, the way there and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._quantise import by_largest, rounded
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered


def moe_gating_top_k_softmax(
    x: Tensor, finished: Tensor | None = None, k: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """The `k` largest softmax values, their experts, and the position of each pair counted by columns.

    Tokens that are finished go to the expert after the last one.
    """
    values, experts = wide(x).softmax(-1).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    count = values.numel() // k
    rows = torch.arange(count * k, device=x.device, dtype=torch.int32).view(k, count).t()
    return values.to(x.dtype), experts.to(torch.int32), rows.reshape(values.shape).contiguous()


def moe_gating_top_k_softmax_v2(
    x: Tensor,
    *,
    k: int = 1,
    finished: Tensor | None = None,
    renorm: int | None = 0,
    output_softmax: bool | None = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """As above, with all softmax values where they are wanted; with `renorm` a softmax of the `k` largest alone."""
    all_values = wide(x).softmax(-1)
    values, experts = (wide(x) if renorm else all_values).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    third = (
        all_values.to(torch.float32)
        if output_softmax and not renorm
        else x.new_empty((0,), dtype=torch.float32)
    )
    return (values.softmax(-1) if renorm else values).to(x.dtype), experts.to(torch.int32), third


def moe_compute_expert_tokens(sorted_expert_for_source_row: Tensor, num_expert: int) -> Tensor:
    """How many rows go to each expert and to those before it."""
    numbers = torch.arange(num_expert, device=sorted_expert_for_source_row.device)
    return torch.searchsorted(
        sorted_expert_for_source_row.to(torch.int64), numbers, right=True, out_int32=True
    )


def moe_gating_top_k(
    x: Tensor,
    k: int,
    *,
    bias: Tensor | None = None,
    input_ids: Tensor | None = None,
    tid2eid: Tensor | None = None,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of the chosen experts, the experts, and all weights before the choice.

    Experts are chosen by weight plus `bias`, within the best `k_group` of `group_count` groups. With
    `norm_type=1` weights are sigmoids, divided by their sum after the choice; otherwise a softmax. The
    device fills the third result only with `out_flag`; otherwise it is zeros here.
    """
    name = "npu_moe_gating_top_k"
    if renorm != 0 or norm_type not in (0, 1) or group_select_mode not in (0, 1):
        raise NotCovered(
            name, f"renorm={renorm}, norm_type={norm_type}, group_select_mode={group_select_mode}"
        )
    weights = wide(x).sigmoid() if norm_type == 1 else wide(x).softmax(-1)
    if tid2eid is not None and input_ids is not None:
        experts = tid2eid.to(torch.int64)[input_ids.to(torch.int64)]
    else:
        scores = weights if bias is None else weights + wide(bias)
        experts = _within_groups(scores, k_group, group_count, group_select_mode).topk(k, -1).indices
    y = weights.gather(-1, experts)
    if norm_type == 1:
        y = y / (y.sum(-1, keepdim=True) + eps)
    all_weights = weights.to(torch.float32) if out_flag else torch.zeros(x.shape, device=x.device)
    return (y * routed_scaling_factor).to(x.dtype), experts.to(torch.int32), all_weights


def _within_groups(scores: Tensor, chosen: int, groups: int, mode: int) -> Tensor:
    """Scores with those outside the best groups out of reach."""
    if groups <= 1 or chosen >= groups:
        return scores
    grouped = scores.unflatten(-1, (groups, -1))
    worth = grouped.amax(-1) if mode == 0 else grouped.topk(2, -1).values.sum(-1)
    best = torch.zeros_like(worth, dtype=torch.bool).scatter(-1, worth.topk(chosen, -1).indices, True)
    reachable: Tensor = grouped.masked_fill(~best.unsqueeze(-1), -torch.inf)
    return reachable.flatten(-2)


# -- to the experts


def moe_init_routing_v2(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: Sequence[int] = (),
    row_idx_type: int = 0,
    x_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows in the order of their experts, where each pair of token and choice went, counts, scales.

    Pairs whose expert is outside `active_expert_range`, or that do not fit, go nowhere: -1. Rows and scales
    that nothing went to hold nothing on the device and zeros here.
    """
    name = "npu_moe_init_routing_v2"
    if quant_mode not in (-1, 0, 1) or x_dtype is not None:
        raise NotCovered(name, f"quant_mode {quant_mode} with x_dtype {x_dtype}")
    if drop_pad_mode == 1 and (quant_mode != -1 or row_idx_type != 0):
        raise NotCovered(name, "drop_pad_mode 1 with quantisation or row_idx_type 1")
    first, last = tuple(active_expert_range) or (0, expert_num)
    flat = expert_idx.reshape(-1).to(torch.int64)
    active = (flat >= first) & (flat < last)
    order = torch.where(active, flat, torch.full_like(flat, 2**31 - 1)).argsort(stable=True)
    per_expert = torch.bincount(flat[active] - first, minlength=last - first)
    counts = _counts(per_expert, expert_tokens_num_type, expert_tokens_num_flag, first, expert_num)
    k = expert_idx.shape[-1]
    if drop_pad_mode == 1:
        place = _places(per_expert, expert_capacity, first, expert_num)
        rows, where, scales = _into_capacity(x, scale, order, place, k, (expert_num, expert_capacity))
        return rows, where, counts, scales
    room = flat.numel() if active_num <= 0 else min(active_num, flat.numel())
    order = order[: min(int(active.sum()), room)]
    rows, scales = _expanded(x, order, flat, k, first, scale, offset, quant_mode, room)
    where = torch.full_like(flat, -1)
    if row_idx_type == 1:
        where[: order.numel()] = order
    else:
        where[order] = torch.arange(order.numel(), device=x.device)
    return rows, where.to(torch.int32), counts, scales


def _counts(per_expert: Tensor, kind: int, is_wanted: bool, first: int, experts: int) -> Tensor:
    """0: sums up to each expert, 1: counts, 2: pairs of expert and count for those that have any."""
    if not is_wanted:
        return per_expert.new_zeros(())
    if kind == 0:
        return per_expert.cumsum(0)
    if kind == 1:
        return per_expert
    used = per_expert.nonzero().squeeze(-1)
    pairs = per_expert.new_zeros((experts, 2))
    pairs[: used.numel()] = torch.stack((used + first, per_expert[used]), 1)
    return pairs


def _places(per_expert: Tensor, capacity: int, first: int, experts: int) -> Tensor:
    """Where each pair, in the order of experts, goes in `[experts, capacity]`; -1 for those too many."""
    expert = torch.arange(per_expert.numel(), device=per_expert.device).repeat_interleave(per_expert)
    begins = per_expert.cumsum(0) - per_expert
    within = torch.arange(expert.numel(), device=expert.device) - begins[expert]
    return torch.where(within < capacity, (expert + first) * capacity + within, torch.full_like(expert, -1))


def _into_capacity(
    x: Tensor, scale: Tensor | None, order: Tensor, place: Tensor, k: int, room: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    order = order[: place.numel()]
    kept = place >= 0
    token = order[kept] // k
    rows, scales = (x.new_zeros((room[0] * room[1], *last)) for last in ((x.shape[1],), ()))
    rows[place[kept]] = x[token]
    scales = scales.to(torch.float32)
    if scale is not None:
        scales[place[kept]] = wide(scale)[token]
    where = order.new_full((x.shape[0] * k,), -1)
    where[order] = place
    return rows.view(*room, x.shape[1]), where.to(torch.int32), scales


def _expanded(
    x: Tensor,
    order: Tensor,
    flat: Tensor,
    k: int,
    first: int,
    scale: Tensor | None,
    offset: Tensor | None,
    mode: int,
    room: int,
) -> tuple[Tensor, Tensor]:
    """Rows and scales in the order of experts, with zeros behind them up to `room`."""
    token = order // k
    rows, scales = x[token], x.new_zeros((token.numel(),), dtype=torch.float32)
    if mode == -1 and scale is not None:
        scales = wide(scale)[token]
    elif mode == 0:
        if scale is None:
            raise NotCovered("npu_moe_init_routing_v2", "quant_mode 0 without a scale")
        values = wide(rows) * wide(scale)
        rows = rounded(values if offset is None else values + wide(offset), torch.int8)
        return torch.nn.functional.pad(rows, (0, 0, 0, room - rows.shape[0])), scales.new_zeros(())
    elif mode == 1:
        values = wide(rows)
        if scale is not None:
            values = (
                values * wide(scale)[flat[order] - first if scale.shape[0] > 1 else torch.zeros_like(order)]
            )
        rows, found = by_largest(values, torch.int8)
        scales = found.squeeze(-1)
    behind = room - rows.shape[0]
    pad = torch.nn.functional.pad
    return pad(rows, (0, 0, 0, behind)), pad(scales, (0, behind))


def _init_routing_fake(
    x: Tensor,
    expert_idx: Tensor,
    *,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: Sequence[int] = (),
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if quant_mode not in (-1, 0, 1):
        raise NotCovered("npu_moe_init_routing_v2", f"quant_mode {quant_mode}")
    pairs = x.shape[0] * expert_idx.shape[1]
    first, last = tuple(active_expert_range) or (0, expert_num)
    counts: tuple[int, ...] = ()
    if expert_tokens_num_flag:
        counts = (expert_num, 2) if expert_tokens_num_type == 2 else (last - first,)
    if drop_pad_mode == 1:
        rows: tuple[int, ...] = (expert_num, expert_capacity, x.shape[1])
        scales: tuple[int, ...] = (expert_num * expert_capacity,)
    else:
        room = pairs if active_num <= 0 else torch.sym_min(active_num, pairs)
        rows, scales = (room, x.shape[1]), (() if quant_mode == 0 else (room,))
    return (
        x.new_empty(rows, dtype=x.dtype if quant_mode == -1 else torch.int8),
        x.new_empty((pairs,), dtype=torch.int32),
        x.new_empty(counts, dtype=torch.int64),
        x.new_empty(scales, dtype=torch.float32),
    )


# -- and back


def moe_finalize_routing(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None = 0,
    k: int | None = 1,
) -> Tensor:
    """`skip1 + skip2 +` the sum over a token's experts of `scale * (row + bias of the expert)`.

    `expanded_src_to_dst_row` goes choice by choice in modes 0 and 1, token by token in 2 and 3.
    """
    rows = wide(expanded_permuted_rows).reshape(-1, expanded_permuted_rows.shape[-1])
    place = expanded_src_to_dst_row.to(torch.int64)
    count = scales.shape[0] if scales is not None else place.shape[0] // (k or 1)
    choices = place.shape[0] // count
    place = place.view(choices, count).t() if (drop_pad_mode or 0) < 2 else place.view(count, choices)
    gone = (place < 0) | (place >= rows.shape[0])
    chosen = rows[place.masked_fill(gone, 0)]
    if bias is not None:
        if export_for_source_row is None:
            raise NotCovered("npu_moe_finalize_routing", "a bias without export_for_source_row")
        chosen = chosen + wide(bias)[export_for_source_row.to(torch.int64)]
    chosen = chosen.masked_fill(gone.unsqueeze(-1), 0)
    if scales is not None:
        chosen = chosen * wide(scales).unsqueeze(-1)
    out = chosen.sum(1)
    for skip in (skip1, skip2):
        out = out if skip is None else out + wide(skip)
    return out.to(expanded_permuted_rows.dtype)


def _finalize_fake(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None = 0,
    k: int | None = 1,
) -> Tensor:
    count = expanded_src_to_dst_row.shape[0] // (k or 1) if scales is None else scales.shape[0]
    return expanded_permuted_rows.new_empty((count, expanded_permuted_rows.shape[-1]))


def _chosen() -> Tensor:
    return torch.tensor([[0, 1], [2, 1], [3, 0]], dtype=torch.int32)


def _gated(draw: Draw) -> list[Sample]:
    scores, finished = draw.real(5, 8, dtype=F32), torch.tensor([False, True, False, False, True])
    return [Sample((scores, None, 2)), Sample((scores, finished, 2), label="finished")]


def _gated_v2(draw: Draw) -> list[Sample]:
    x, finished = draw.real(5, 8, dtype=F32), torch.tensor([False, True, False, False, True])
    return [
        Sample((x,), {"k": 2, "finished": finished, "output_softmax": True}),
        Sample((x,), {"k": 2}, "two", (2,)),
        Sample((x,), {"k": 3, "renorm": 1}, "renormalised", (2,)),
    ]


def _sorted(draw: Draw) -> list[Sample]:
    return [Sample((torch.tensor([0, 0, 1, 3], dtype=torch.int32), 4))]


def _gated_in_groups(draw: Draw) -> list[Sample]:
    scores, bias = draw.real(5, 8, dtype=F32), draw.positive(8, dtype=F32)
    groups = {"norm_type": 1, "k_group": 2, "group_count": 4, "group_select_mode": 1, "out_flag": True}
    return [Sample((scores, 2), {"out_flag": True}), Sample((scores, 2), {**groups, "bias": bias}, "groups")]


def _routed(draw: Draw) -> list[Sample]:
    args, counted = (
        (draw.real(3, 16), _chosen()),
        {"expert_num": 4, "active_num": 6, "active_expert_range": [0, 4]},
    )
    counted["expert_tokens_num_flag"] = True
    kinds = [
        Sample(args, {**counted, "expert_tokens_num_type": kind}, label, (3,))
        for kind, label in enumerate(("sums", "counts", "pairs"))
    ]
    scaled = {**counted, "expert_tokens_num_type": 1, "scale": draw.positive(3, dtype=F32)}
    full = {**scaled, "drop_pad_mode": 1, "expert_capacity": 2}
    return [
        *kinds,
        Sample(args, {**counted, "expert_tokens_num_type": 1, "quant_mode": 1}, "quantised"),
        Sample(args, scaled, "scaled"),
        Sample(args, full, "capacity"),
    ]


def _finalized(draw: Draw) -> list[Sample]:
    place, bias = torch.tensor([0, 3, 5, 2, 1, 4], dtype=torch.int32), draw.positive(4, 16)
    skip, scales = draw.real(3, 16), draw.positive(3, 2)
    return [Sample((draw.real(6, 16), skip, None, bias, scales, place, _chosen()))]


OPS: Final = (
    NpuOp("npu_moe_gating_top_k_softmax", moe_gating_top_k_softmax, _gated, ir=Ir("MoeGatingTopKSoftmax")),
    NpuOp(
        "npu_moe_gating_top_k_softmax_v2",
        moe_gating_top_k_softmax_v2,
        _gated_v2,
        ir=Ir("MoeGatingTopKSoftmaxV2", {"output_softmax_result_flag": "output_softmax"}),
    ),
    NpuOp(
        "npu_moe_compute_expert_tokens",
        moe_compute_expert_tokens,
        _sorted,
        ir=Ir(
            "MoeComputeExpertTokens",
            {"sorted_experts": "sorted_expert_for_source_row", "num_experts": "num_expert"},
        ),
    ),
    NpuOp("npu_moe_gating_top_k", moe_gating_top_k, _gated_in_groups, ir=Ir("MoeGatingTopK")),
    NpuOp(
        "npu_moe_init_routing_v2", moe_init_routing_v2, _routed, _init_routing_fake, ir=Ir("MoeInitRoutingV3")
    ),
    NpuOp(
        "npu_moe_finalize_routing",
        moe_finalize_routing,
        _finalized,
        _finalize_fake,
        ir=Ir(
            "MoeFinalizeRoutingV2",
            {
                "expanded_x": "expanded_permuted_rows",
                "expanded_row_idx": "expanded_src_to_dst_row",
                "x1": "skip1",
                "x2": "skip2",
                "expert_idx": "export_for_source_row",
            },
        ),
    ),
)
