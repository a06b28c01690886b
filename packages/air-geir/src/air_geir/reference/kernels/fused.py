"""Fused operators of NPU model code: norms, rotary positions, products."""

from __future__ import annotations

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


def _turn_quarters(x: Tensor) -> Tensor:
    return torch.cat([_turn_halves(half) for half in x.chunk(2, -1)], -1)


@kernel("RotaryMul")
def rotary_mul(op: Operator) -> Run:
    """x * r1 + (x with its halves turned) * r2."""
    return lambda x, r1, r2: x * r1 + _turn_halves(x) * r2


@kernel("RotaryPositionEmbedding")
def rotary_position_embedding(op: Operator) -> Run:
    """RotaryMul with the turn of a mode: halves (0), neighbouring pairs (1), quarters (2) or a matrix."""
    mode = int(op.attr("mode"))
    if mode not in (0, 1, 2):
        raise op.refuse(f"mode {mode} is not supported")
    turn = (_turn_halves, _turn_pairs, _turn_quarters)[mode]

    def run(x: Tensor, cos: Tensor, sin: Tensor, rotate: Tensor | None) -> Tensor:
        turned = turn(x) if rotate is None else x.float() @ rotate.float()
        return (x.float() * cos.float() + turned.float() * sin.float()).to(x.dtype)

    return run


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
