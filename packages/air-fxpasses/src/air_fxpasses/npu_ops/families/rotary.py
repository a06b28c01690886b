"""Rotary positions of queries and keys.

On the device `npu_apply_rotary_pos_emb` also leaves its results in `query` and `key`, which its schema does
not say. The reference keeps to the schema: use the results.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops._rotate import deinterleaved, rotated
from air_fxpasses.npu_ops._row import NpuOp
from air_fxpasses.npu_ops._types import wide


def rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """`input * r1 + turned(input) * r2`, turned by `rotate` when it is given."""
    if rotate is None:
        return rotated(input, r1, r2, rotary_mode, "npu_rotary_mul")
    values = wide(input)
    return (values * wide(r1) + values @ wide(rotate) * wide(r2)).to(input.dtype)


def _rotary_mul_fake(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    return input.new_empty(input.shape)


def apply_rotary_pos_emb(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    """Queries and keys, turned by the same angles; a shorter `cos` turns the front alone."""
    name = "npu_apply_rotary_pos_emb"
    turned = tuple(rotated(x, cos, sin, rotary_mode, name).contiguous() for x in (query, key))
    return turned[0], turned[1]


def _apply_rotary_pos_emb_fake(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape)


def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The even and the odd elements of `x` become its halves, which are then turned."""
    return rotated(deinterleaved(x), cos, sin, "half", "npu_interleave_rope")


def _interleave_rope_fake(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


OPS: Final = (
    NpuOp("npu_rotary_mul", rotary_mul, _rotary_mul_fake),
    NpuOp(
        "npu_apply_rotary_pos_emb",
        apply_rotary_pos_emb,
        _apply_rotary_pos_emb_fake,
    ),
    NpuOp("npu_interleave_rope", interleave_rope, _interleave_rope_fake),
)
