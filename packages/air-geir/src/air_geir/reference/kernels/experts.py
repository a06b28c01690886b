"""Mixtures of experts: which experts a token goes to, the way there and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


@kernel("MoeGatingTopKSoftmax")
def moe_gating_top_k_softmax(op: Operator) -> Run:
    """The k most likely experts of each row; row numbers run along the columns."""
    k = int(op.attr("k"))

    def run(x: Tensor, finished: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        values, experts = torch.topk(torch.softmax(x.float(), -1), k, -1)
        chosen = experts.to(torch.int32)
        if finished is not None:
            chosen = torch.where(finished.unsqueeze(-1), torch.full_like(chosen, x.shape[-1]), chosen)
        rows = values.numel() // k
        places = torch.arange(rows * k, dtype=torch.int32).reshape(k, rows).t().reshape(values.shape)
        return values.to(x.dtype), chosen, places.contiguous()

    return run


@kernel("MoeComputeExpertTokens")
def moe_compute_expert_tokens(op: Operator) -> Run:
    """How many rows go to each expert and those before it."""
    experts = int(op.attr("num_experts"))

    def run(sorted_experts: Tensor) -> Tensor:
        numbers = torch.arange(experts, dtype=sorted_experts.dtype)
        return torch.searchsorted(sorted_experts, numbers, right=True).to(sorted_experts.dtype)

    return run


@kernel("MoeGatingTopKSoftmaxV2")
def moe_gating_top_k_softmax_v2(op: Operator) -> Run:
    """The k most likely experts of each row, and all likelihoods."""
    k = int(op.attr("k"))

    def run(x: Tensor, finished: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        weights = torch.softmax(x.float(), -1)
        values, experts = torch.topk(weights, k, -1)
        chosen = experts.to(torch.int32)
        if finished is not None:
            chosen = torch.where(finished.unsqueeze(-1), torch.full_like(chosen, x.shape[-1]), chosen)
        return values.to(x.dtype), chosen, weights

    return run


@kernel("MoeGatingTopK")
def moe_gating_top_k(op: Operator) -> Run:
    """The best experts by weight plus bias within the best groups; their weights; all weights when asked."""
    k, kept, groups = (int(op.attr(n)) for n in ("k", "k_group", "group_count"))
    by_pairs, sigmoid, renorm = (int(op.attr(n)) for n in ("group_select_mode", "norm_type", "renorm"))
    factor, eps, wants_all = op.attr("routed_scaling_factor"), op.attr("eps"), bool(op.attr("out_flag"))
    if renorm:
        raise op.refuse(f"renorm {renorm} is not supported")

    def reachable(scores: Tensor) -> Tensor:
        if groups == 1 or kept >= groups:
            return scores
        apart = scores.reshape(scores.shape[0], groups, -1)
        best = torch.sort(apart, -1, descending=True).values
        worth = best[..., :2].sum(-1) if by_pairs else best[..., 0]
        rank = torch.argsort(torch.argsort(worth, dim=-1, descending=True, stable=True), dim=-1)
        return torch.where((rank < kept).unsqueeze(-1), apart, torch.full_like(apart, -torch.inf)).reshape(
            scores.shape
        )

    def run(
        x: Tensor, bias: Tensor | None, input_ids: Tensor | None, tid2eid: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        weights = torch.sigmoid(x.float()) if sigmoid else torch.softmax(x.float(), -1)
        if input_ids is not None and tid2eid is not None:
            experts = tid2eid[input_ids.long()].long()
        else:
            experts = torch.topk(
                reachable(weights if bias is None else weights + bias.float()), k, -1
            ).indices
        chosen = torch.gather(weights, -1, experts)
        if sigmoid:
            chosen = chosen / (chosen.sum(-1, keepdim=True) + eps)
        everything = weights if wants_all else torch.zeros_like(weights)
        return (chosen * factor).to(x.dtype), experts.to(torch.int32), everything

    return run


@dataclass(frozen=True)
class _Routing:
    """The attributes of MoeInitRoutingV3."""

    experts: int
    capacity: int
    most: int
    counted: int
    wants_counts: bool
    gathers: bool
    quantises: bool
    first: int
    last: int

    @classmethod
    def of(cls, op: Operator) -> _Routing:
        first, last = op.ints("active_expert_range") or (0, int(op.attr("expert_num")))
        experts, capacity, most, counted = (
            int(op.attr(n)) for n in ("expert_num", "expert_capacity", "active_num", "expert_tokens_num_type")
        )
        wants, gathers = bool(op.attr("expert_tokens_num_flag")), int(op.attr("row_idx_type")) == 1
        mode = int(op.attr("quant_mode"))
        if mode not in (-1, 1) or (int(op.attr("drop_pad_mode")) and mode != -1):
            raise op.refuse(
                f"quant_mode {mode} with drop_pad_mode {op.attr('drop_pad_mode')} is not supported"
            )
        return cls(experts, capacity, most, counted, wants, gathers, mode == 1, first, last)

    def takers(self, flat: list[int]) -> list[list[int]]:
        """The pairs of token and choice that go to each active expert, in their order."""
        return [
            [pair for pair, expert in enumerate(flat) if expert == e] for e in range(self.first, self.last)
        ]

    def counts(self, sizes: list[int]) -> Tensor:
        """How many rows each expert has: sums up to it, plainly, or as pairs of expert and count."""
        if not self.wants_counts:
            return torch.zeros((), dtype=torch.int64)
        if self.counted == 2:
            pairs = [[self.first + at, size] for at, size in enumerate(sizes) if size]
            return torch.tensor(pairs + [[0, 0]] * (self.experts - len(pairs)))
        each = torch.tensor(sizes)
        return torch.cumsum(each, 0) if self.counted == 0 else each

    def padded(
        self, x: Tensor, takers: list[list[int]], choices: int, where: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Every expert's rows in a place of the same size; those that do not fit go nowhere."""
        rows = x.new_zeros(self.experts, self.capacity, x.shape[1])
        for e, pairs in enumerate(takers, self.first):
            for place, pair in enumerate(pairs[: self.capacity]):
                rows[e, place], where[pair] = x[pair // choices], e * self.capacity + place
        return rows, torch.zeros(self.experts * self.capacity)

    def packed(
        self, x: Tensor, takers: list[list[int]], choices: int, where: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The rows of one expert behind those of another, with zeros behind the last."""
        room = where.numel() if self.most <= 0 else min(self.most, where.numel())
        order = [pair for pairs in takers for pair in pairs][:room]
        for place, pair in enumerate(order):
            where[place if self.gathers else pair] = pair if self.gathers else place
        chosen, scales = x[[pair // choices for pair in order]], torch.zeros(room)
        if self.quantises:
            scale = chosen.float().abs().amax(-1) / 127
            scales[: len(order)] = scale
            chosen = torch.round(chosen.float() / scale.clamp_min(1e-30).unsqueeze(-1)).to(torch.int8)
        rows = chosen.new_zeros(room, x.shape[1])
        rows[: len(order)] = chosen
        return rows, scales


@kernel("MoeInitRoutingV3")
def moe_init_routing(op: Operator) -> Run:
    """Rows in the order of their experts, where each pair of token and choice went, how many each expert has."""
    routing, pads = _Routing.of(op), bool(op.attr("drop_pad_mode"))

    def run(
        x: Tensor, expert_idx: Tensor, scale: Tensor | None, offset: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if offset is not None or scale is not None:
            raise op.refuse("scales that are given are not supported")
        choices, flat = expert_idx.shape[-1], expert_idx.flatten().tolist()
        takers, where = routing.takers(flat), torch.full((len(flat),), -1, dtype=torch.int32)
        rows, scales = (routing.padded if pads else routing.packed)(x, takers, choices, where)
        return rows, where, routing.counts([len(pairs) for pairs in takers]), scales

    return run


@kernel("MoeFinalizeRoutingV2")
def moe_finalize_routing(op: Operator) -> Run:
    """Every token's rows from its experts, weighted and added up, on top of what skips the experts."""
    by_token = int(op.attr("drop_pad_mode")) in (2, 3)
    k = int(op.attr("K"))

    def run(
        expanded: Tensor, row_idx: Tensor, x1: Tensor | None, x2: Tensor | None, bias: Tensor | None,
        scales: Tensor | None, expert_idx: Tensor | None,
    ) -> Tensor:  # fmt: skip
        rows = expanded.flatten(0, -2).float()
        tokens = row_idx.numel() // k if scales is None else scales.shape[0]
        places = row_idx.reshape(tokens, -1) if by_token else row_idx.reshape(-1, tokens).t()
        y = torch.zeros(tokens, rows.shape[-1])
        for choice, column in enumerate(places.unbind(1)):
            there = (column >= 0) & (column < rows.shape[0])
            part = rows[torch.where(there, column, 0).long()]
            if bias is not None:
                if expert_idx is None:
                    raise op.refuse("a bias needs expert_idx")
                part = part + bias.float()[expert_idx[:, choice].long()]
            part = part if scales is None else part * scales[:, choice, None].float()
            y = y + torch.where(there.unsqueeze(-1), part, torch.zeros_like(part))
        for skip in (x1, x2):
            y = y if skip is None else y + skip.float()
        return y.to(expanded.dtype)

    return run
