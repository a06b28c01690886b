"""Rotary positions: the pairs of a vector turned by an angle, in the three orders that models use."""

from __future__ import annotations

import torch
from torch import Tensor

from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered


def turned(x: Tensor, mode: str, operator: str) -> Tensor:
    """Every pair `(a, b)` of the last axis as `(-b, a)`; `mode` says which elements are pairs."""
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    if mode == "quarter":
        a, b, c, d = x.chunk(4, -1)
        return torch.cat((-b, a, -d, c), -1)
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    raise NotCovered(operator, f"rotary_mode '{mode}'")


def rotated(x: Tensor, cos: Tensor, sin: Tensor, mode: str, operator: str) -> Tensor:
    """`x` turned by the angles of `cos` and `sin`; a shorter `cos` turns the front of `x` alone."""
    width = cos.shape[-1]
    front, rest = wide(x[..., :width]), x[..., width:]
    out = (front * wide(cos) + turned(front, mode, operator) * wide(sin)).to(x.dtype)
    return out if width == x.shape[-1] else torch.cat((out, rest), -1)


def deinterleaved(x: Tensor) -> Tensor:
    """The even elements of the last axis, then the odd ones."""
    return torch.cat((x[..., ::2], x[..., 1::2]), -1)
