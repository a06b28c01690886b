"""Attention over `[batch, heads, tokens, width]`: what every attention operator comes down to.

Scores, softmax and the weighted sum are computed in 32 bits. A query that may see no key gives zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered

_UNBOUNDED: Final = 2**31 - 1
_PERMUTED: Final = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "NBSD": (1, 0, 2, 3)}


@dataclass(frozen=True)
class Result:
    """The output in the type of the query, and the two numbers that a softmax row is normalised with."""

    out: Tensor
    largest: Tensor
    total: Tensor


@dataclass(frozen=True)
class Visible:
    """Which keys a query may see, next to an explicit mask."""

    mode: int = 0
    before: int = _UNBOUNDED
    after: int = _UNBOUNDED
    prefix: Sequence[int] | None = None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    visible: Visible,
    mask: Tensor | None,
    operator: str,
    bias: Tensor | None = None,
    bias_is_scaled: bool = False,
    sink: Tensor | None = None,
) -> Result:
    """Softmax of the scaled products, with hidden keys left out, times the values."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (wide(x).repeat_interleave(groups, 1) for x in (key, value))
    scores = wide(query) @ keys.transpose(-1, -2)
    if bias is not None and bias_is_scaled:
        scores = scores + wide(bias)
    scores = scores * scale
    if bias is not None and not bias_is_scaled:
        scores = scores + wide(bias)
    hidden = _hidden_keys(visible, mask, query.shape[2], key.shape[2], query.device, operator)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    largest = scores.amax(-1, keepdim=True)
    if sink is not None:
        largest = torch.maximum(largest, wide(sink).reshape(1, -1, 1, 1))
    largest = torch.where(largest == -torch.inf, torch.zeros_like(largest), largest)
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (wide(sink).reshape(1, -1, 1, 1) - largest).exp()
    safe = torch.where(total == 0, torch.ones_like(total), total)
    return Result(((weights / safe) @ values).to(query.dtype), largest, total)


def _hidden_keys(
    visible: Visible, mask: Tensor | None, queries: int, keys: int, device: torch.device, operator: str
) -> Tensor | None:
    """What is hidden by the mode and the mask together; `None` for nothing.

    | mode | hidden |
    |---|---|
    | 0 | the mask, and what lies outside the band when there is a mask |
    | 1 | the mask |
    | 2, 3 | later keys, counted from the upper left or the lower right corner |
    | 4 | what lies outside the band around the lower right diagonal |
    """
    if visible.mode in (0, 1):
        full = None if mask is None else mask[..., :queries, :keys].to(torch.bool)
        unbounded = visible.before >= _UNBOUNDED and visible.after >= _UNBOUNDED
        if full is None or visible.mode == 1 or unbounded:
            return full
        return torch.logical_or(full, _outside(_distance(queries, keys, 0, device), visible))
    if visible.mode == 2:
        return torch.gt(_distance(queries, keys, 0, device), 0)
    if visible.mode == 3:
        return torch.gt(_distance(queries, keys, keys - queries, device), 0)
    if visible.mode == 4:
        return _outside(_distance(queries, keys, keys - queries, device), visible)
    raise NotCovered(operator, f"sparse_mode {visible.mode}")


def _distance(queries: int, keys: int, corner: int, device: torch.device) -> Tensor:
    """How far a key lies after the diagonal of its query."""
    return torch.arange(keys, device=device) - torch.arange(queries, device=device).unsqueeze(1) - corner


def _outside(distance: Tensor, visible: Visible) -> Tensor:
    return torch.logical_or(distance > visible.after, distance < -visible.before)


# -- layouts


def to_heads(x: Tensor, layout: str, heads: int) -> Tensor:
    """A tensor in a layout of whole batches as `[B, N, S, D]`."""
    if layout in ("BSH", "SBH"):
        apart: Tensor = x.unflatten(-1, (heads, -1))
        return apart.transpose(1, 2) if layout == "BSH" else apart.permute(1, 2, 0, 3)
    if layout == "NSD":
        return x.unsqueeze(0)
    return x.permute(_PERMUTED[layout])


def from_heads(x: Tensor, layout: str) -> Tensor:
    """`[B, N, S, D]` in a layout of whole batches."""
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    if layout == "NSD":
        return x.squeeze(0)
    return x.permute(_PERMUTED[layout]).contiguous()


def pieces(x: Tensor, ends: Sequence[int]) -> list[Tensor]:
    """The sequences packed in `[T, N, D]`, each as `[1, N, S, D]`; `ends` are where they end."""
    starts = [0, *ends[:-1]]
    return [x[a:b].transpose(0, 1).unsqueeze(0) for a, b in zip(starts, ends, strict=True)]
