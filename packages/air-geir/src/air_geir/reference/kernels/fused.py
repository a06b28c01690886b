"""Fused operators of NPU model code: norms, rotary positions, quantisation, experts, attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@kernel("AddRmsNormCast")
def add_rms_norm_cast(op: Operator) -> Run:
    """RmsNorm of a sum, in float32 and in the type of the inputs."""
    epsilon = op.attr("epsilon")

    def run(x1: Tensor, x2: Tensor, gamma: Tensor) -> tuple[Tensor, ...]:
        x = x1 + x2
        axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
        rstd = torch.rsqrt(x.float().pow(2).mean(axes, keepdim=True) + epsilon)
        y = (x.float() * rstd * gamma.float()).to(x.dtype)
        return y.float(), y, rstd, x

    return run


def _turn_halves(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def _turn_pairs(x: Tensor) -> Tensor:
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


@kernel("RotaryMul")
def rotary_mul(op: Operator) -> Run:
    """x * r1 + (x with its halves turned) * r2."""
    return lambda x, r1, r2: x * r1 + _turn_halves(x) * r2


@kernel("RotaryPositionEmbedding")
def rotary_position_embedding(op: Operator) -> Run:
    """RotaryMul with the turn of a mode: halves (0) or neighbouring pairs (1)."""
    mode = int(op.attr("mode"))
    if mode not in (0, 1):
        raise op.refuse(f"mode {mode} is not supported")
    turn = _turn_halves if mode == 0 else _turn_pairs
    return lambda x, cos, sin, rotate: x * cos + turn(x) * sin


@kernel("ApplyRotaryPosEmb", writes={"query": 0, "key": 1})
def apply_rotary_pos_emb(op: Operator) -> Run:
    """Rotary positions of query and key, in place."""
    if _text(op.attr("rotary_mode")) != "half":
        raise op.refuse("only rotary_mode half is supported")

    def run(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        for x in (query, key):
            x.copy_(x * cos + _turn_halves(x) * sin)
        return query, key

    return run


@kernel("InterleaveRope")
def interleave_rope(op: Operator) -> Run:
    """Even elements first, then odd ones, then rotary positions over the halves."""

    def run(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        sorted_ = torch.cat([x[..., ::2], x[..., 1::2]], -1)
        return sorted_ * cos + _turn_halves(sorted_) * sin

    return run


@kernel("GroupNormSilu")
def group_norm_silu(op: Operator) -> Run:
    """Group normalisation, then silu; also mean and 1 / standard deviation."""
    groups, eps = int(op.attr("num_groups")), op.attr("eps")

    def run(x: Tensor, gamma: Tensor | None, beta: Tensor | None) -> tuple[Tensor, ...]:
        batch, channels = x.shape[:2]
        y, mean, rstd = torch.native_group_norm(
            x.contiguous(), gamma, beta, batch, channels, x[0, 0].numel(), groups, eps
        )
        return F.silu(y), mean, rstd

    return run


@kernel("DynamicQuant")
def dynamic_quant(op: Operator) -> Run:
    """Each row divided by its largest magnitude over 127 and rounded; also that scale."""
    dtype = op.dtype("dst_type")
    if dtype != torch.int8:
        raise op.refuse(f"type {dtype} is not supported")

    def run(x: Tensor, smooth_scales: Tensor | None, group_index: Tensor | None) -> tuple[Tensor, Tensor]:
        if group_index is not None:
            raise op.refuse("group_index is not supported")
        wide = x.float() if smooth_scales is None else x.float() * smooth_scales.float()
        scale = wide.abs().amax(-1) / 127.0
        return torch.round(wide / scale.unsqueeze(-1)).clamp(-128, 127).to(torch.int8), scale

    return run


@kernel("QuantBatchMatmulV3")
def quant_matmul(op: Operator) -> Run:
    """int8 product accumulated exactly, scaled per channel (and per token) to the output type."""
    first, second = bool(op.attr("transpose_x1")), bool(op.attr("transpose_x2"))
    dtype = op.dtype("dtype")

    def run(
        x1: Tensor,
        x2: Tensor,
        scale: Tensor,
        offset: Tensor | None,
        bias: Tensor | None,
        pertoken: Tensor | None,
    ) -> Tensor:
        if offset is not None:
            raise op.refuse("an offset is not supported")
        a, b = (x1.transpose(-1, -2) if first else x1), (x2.transpose(-1, -2) if second else x2)
        total = torch.matmul(a.to(torch.int32), b.to(torch.int32))
        if bias is not None and bias.dtype == torch.int32:
            total = total + bias
        result = total.float() * scale.float()
        if pertoken is not None:
            result = result * pertoken.float().unsqueeze(-1)
        if bias is not None and bias.dtype != torch.int32:
            result = result + bias.float()
        return result.to(dtype)

    return run


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


class _Layout:
    """Query, key and value as (batch, heads, length, width), and the result back."""

    def __init__(self, op: Operator, heads: int, kv_heads: int) -> None:
        self.name = _text(op.attr("input_layout"))
        self.heads = heads
        self.kv_heads = kv_heads or heads
        if self.name not in ("BSH", "BNSD", "BSND", "BNSD_BSND"):
            raise op.refuse(f"input_layout {self.name!r} is not supported")

    def inward(self, x: Tensor, heads: int) -> Tensor:
        if self.name == "BSH":
            return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
        return x.transpose(1, 2) if self.name == "BSND" else x

    def outward(self, y: Tensor) -> Tensor:
        if self.name == "BSH":
            return y.transpose(1, 2).flatten(2)
        return y.transpose(1, 2) if self.name in ("BSND", "BNSD_BSND") else y


def _band(queries: int, keys: int, before: int, after: int, aligned: bool) -> Tensor:
    """True where a key lies outside the band round the diagonal, which ends in the last corner when aligned."""
    shift = keys - queries if aligned else 0
    distance = torch.arange(keys) - torch.arange(queries).unsqueeze(1) - shift
    return (distance > after) | (distance < -before)


class _Attention:
    """softmax(q k^T * scale + bias, masked) v with grouped heads."""

    def __init__(self, op: Operator, scale: float) -> None:
        self.op = op
        self.scale = scale
        self.layout = _Layout(op, int(op.attr("num_heads")), int(op.attr("num_key_value_heads")))
        self.mode = int(op.attrs.get("sparse_mode", 0))
        self.before = int(op.attrs.get("pre_tokens", 2147483647))
        self.after = int(op.attrs.get("next_tokens", 2147483647))
        if self.mode not in (0, 1, 2, 3, 4):
            raise op.refuse(f"sparse_mode {self.mode} is not supported")

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None,
        lengths: Sequence[int] | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        q = self.layout.inward(query, self.layout.heads).float()
        k, v = (self.layout.inward(x, self.layout.kv_heads).float() for x in (key, value))
        groups = self.layout.heads // self.layout.kv_heads
        k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
        scores = q @ k.transpose(-1, -2) * self.scale
        if bias is not None:
            scores = scores + bias.float()
        hidden = self._hidden(scores, mask, lengths)
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        lse = torch.logsumexp(scores, -1, keepdim=True)
        weights = torch.softmax(scores, -1).nan_to_num(0.0)
        return self.layout.outward((weights @ v).to(query.dtype)), lse

    def _hidden(self, scores: Tensor, mask: Tensor | None, lengths: Sequence[int] | None) -> Tensor | None:
        queries, keys = scores.shape[-2:]
        hidden: Tensor | None = None
        if self.mode in (2, 3):
            hidden = _band(queries, keys, keys + queries, 0, self.mode == 3)
        elif self.mode == 4:
            hidden = _band(queries, keys, self.before, self.after, True)
        elif mask is not None:
            shown = mask.bool()
            hidden = shown.unsqueeze(1) if shown.dim() == 3 else shown
        elif self.mode == 0 and (self.before < keys + queries or self.after < keys + queries) and queries > 1:
            hidden = _band(queries, keys, self.before, self.after, False)
        if lengths is None:
            return hidden
        beyond = torch.arange(keys) >= torch.tensor(lengths).reshape(-1, 1, 1, 1)
        return beyond if hidden is None else hidden | beyond


_LENGTHS = ("actual_seq_lengths", "actual_seq_lengths_kv")


@kernel("PromptFlashAttention", host=_LENGTHS)
def prompt_flash_attention(op: Operator) -> Run:
    """Attention over a whole prompt."""
    attention = _Attention(op, op.attr("scale_value"))

    def run(
        query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None,
        lengths: Sequence[int] | None, lengths_kv: Sequence[int] | None, *quantisation: Tensor | None,
    ) -> Tensor:  # fmt: skip
        if any(q is not None for q in quantisation):
            raise op.refuse("quantised attention is not supported")
        return attention(query, key, value, bias, mask, lengths_kv or lengths)[0]

    return run


@kernel("IncreFlashAttention", host=("actual_seq_lengths",))
def incre_flash_attention(op: Operator) -> Run:
    """Attention of one new token over what is cached."""
    attention = _Attention(op, op.attr("scale_value"))

    def run(
        query: Tensor, key: Sequence[Tensor], value: Sequence[Tensor], bias: Tensor | None, mask: Tensor | None,
        lengths: Sequence[int] | None, *others: Tensor | None,
    ) -> Tensor:  # fmt: skip
        if len(key) != 1 or any(o is not None for o in others):
            raise op.refuse("lists of caches, quantisation and paged caches are not supported")
        return attention(query, key[0], value[0], bias, mask, lengths)[0]

    return run


@kernel("FusedInferAttentionScore", host=_LENGTHS)
def fused_infer_attention_score(op: Operator) -> Run:
    """Attention of prompts and of single tokens; also the log of the sum of exponentials when asked."""
    attention, wants_lse = _Attention(op, op.attr("scale")), bool(op.attr("softmax_lse_flag"))

    def run(
        query: Tensor, key: Sequence[Tensor], value: Sequence[Tensor], bias: Tensor | None, mask: Tensor | None,
        lengths: Sequence[int] | None, lengths_kv: Sequence[int] | None, *others: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if len(key) != 1 or any(o is not None for o in others):
            raise op.refuse(
                "lists of caches, quantisation, shared prefixes and paged caches are not supported"
            )
        result, lse = attention(query, key[0], value[0], bias, mask, lengths_kv)
        return result, lse if wants_lse else torch.zeros(1)

    return run
