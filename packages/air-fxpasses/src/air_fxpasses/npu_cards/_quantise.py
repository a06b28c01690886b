"""Rounding to narrow types, with saturation, and eight values of four bits in one number of 32."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._types import LARGEST, wide

_LIMITS: Final = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int32: (-(2**31), 2**31 - 1)}
_PACKED: Final = 8


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` in `dtype`: to the nearest, ties to even, and what is too large becomes the largest."""
    if dtype in _LIMITS:
        low, high = _LIMITS[dtype]
        return x.to(torch.float64).round().clamp(low, high).to(dtype)
    if dtype == torch.quint4x2:
        return packed(x.round().clamp(-8, 7).to(torch.int32))
    if dtype in LARGEST:
        return x.clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)
    return x.to(dtype)


def packed(values: Tensor) -> Tensor:
    """Groups of eight along the last axis as one `int32`, the first value in the lowest bits."""
    nibbles = (values & 0xF).unflatten(-1, (-1, _PACKED)).to(torch.int64)
    shifts = torch.arange(0, 32, 4, device=values.device)
    word = torch.bitwise_left_shift(nibbles, shifts).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


def unpacked(words: Tensor) -> Tensor:
    """The signed values of four bits that `packed` put together."""
    shifts = torch.arange(0, 32, 4, device=words.device)
    nibbles = torch.bitwise_right_shift(words.to(torch.int64).unsqueeze(-1), shifts) & 0xF
    return torch.where(nibbles >= 8, nibbles - 16, nibbles).flatten(-2)


def unpacked_operand(words: Tensor, depth: int | None = None) -> Tensor:
    """An operand of a product of four bits, eight to a number; any other as it is.

    `depth` is what a right operand has in common with the left one: it may have been turned after it was packed.
    """
    if words.dtype != torch.int32:
        return words
    if depth is not None and words.dim() > 1 and words.shape[-2] * _PACKED == depth:
        return unpacked(words.mT).mT.to(torch.int8)
    return unpacked(words).to(torch.int8)


def unpacked_scale(scale: Tensor) -> Tensor:
    """A scale as a float, also one that `npu_trans_quant_param` packed."""
    if scale.dtype not in (torch.int64, torch.uint64):
        return wide(scale)
    low = scale.view(torch.int64) & 0xFFFFFFFF
    signed = torch.where(low >= 2**31, low - 2**32, low)
    return signed.to(torch.int32).view(torch.float32)


def packs_scale(x: torch.dtype, scale: torch.dtype, by_rows: bool, result: torch.dtype) -> bool:
    """Whether torch_npu packs the scale of a product first (`npu_trans_quant_param`), which leaves it 19 bits."""
    narrow = x in (torch.int8, torch.int32) and result in (torch.float16, torch.int8)
    return narrow and scale == torch.float32 and not by_rows


def by_largest(x: Tensor, dtype: torch.dtype, dims: tuple[int, ...] = (-1,)) -> tuple[Tensor, Tensor]:
    """`x` divided by a scale that maps the largest magnitude along `dims` to the largest value."""
    values = wide(x)
    scale = values.abs().amax(dims, keepdim=True) / LARGEST[dtype]
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    return rounded(values / safe, dtype), scale
