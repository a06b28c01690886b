"""Filters on logits before a token is drawn."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import wide


def top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    """Minus infinity in place of what is not among the `k` largest, or in the tail of probability `1 - p`."""
    values, order = torch.sort(wide(logits), dim=-1, stable=True)
    if k is not None:
        place = (logits.shape[-1] - k.to(torch.int64)).unsqueeze(-1)
        values = values.masked_fill(values < values.gather(-1, place), -torch.inf)
    if p is not None:
        tail = values.softmax(-1).cumsum(-1) <= 1 - wide(p).unsqueeze(-1)
        last = torch.arange(logits.shape[-1], device=logits.device) == logits.shape[-1] - 1
        values = values.masked_fill(tail & ~last, -torch.inf)
    return torch.empty_like(values).scatter_(-1, order, values).to(logits.dtype)


def _filtered(draw: Draw) -> list[Sample]:
    logits = draw.real(3, 8, dtype=F32)
    k, p = torch.tensor([2, 3, 8], dtype=torch.int32), torch.tensor([0.9, 0.5, 0.1])
    return [Sample((logits, p, k)), Sample((logits, None, k), label="k")]


OPS: Final = (NpuOp("npu_top_k_top_p", top_k_top_p, _filtered),)
