"""One attention in every layout: queries of four heads over keys of two, for the samples of attention operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._sample import Draw

MASK: Final = torch.ones(6, 8, dtype=torch.bool).triu(3)


def heads_first(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value as `[batch, heads, tokens, width]`."""
    return draw.real(2, 4, 6, 16), draw.real(2, 2, 8, 16), draw.real(2, 2, 8, 16)


def laid_out(draw: Draw, queries: str, keys: str) -> Iterator[tuple[str, tuple[Tensor, ...], dict[str, Any]]]:
    """Each layout with its tensors; and where sequences are packed, where they end, by the names of the arguments."""
    plain = heads_first(draw)
    turned = tuple(x.transpose(1, 2).contiguous() for x in plain)
    yield "BNSD", plain, {}
    yield "BSND", turned, {}
    yield "BSH", tuple(x.flatten(2) for x in turned), {}
    yield "TND", tuple(x.flatten(0, 1) for x in turned), {queries: [6, 12], keys: [8, 16]}
