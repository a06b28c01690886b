"""The attention of inference: caches in pages, lengths per batch, packed sequences, two-part keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._attend import (
    Result,
    Visible,
    attend,
    from_heads,
    pieces,
    to_heads,
)
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered

_WHOLE: Final = ("BSH", "BSND", "BNSD", "NSD")
_PACKED: Final = ("TND", "NTD")
_RESULTS: Final = (*_WHOLE, *_PACKED, "NBSD")


@dataclass(frozen=True)
class Problem:
    """A call of one of the inference operators, their differences in naming gone."""

    operator: str
    query: Tensor
    key: Tensor
    value: Tensor
    heads: int
    key_heads: int
    scale: float
    layout: str
    visible: Visible
    mask: Tensor | None = None
    bias: Tensor | None = None
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    query_ends: Sequence[int] | None = None
    key_ends: Sequence[int] | None = None
    pages: Tensor | None = None
    key_scale: Tensor | None = None
    key_offset: Tensor | None = None
    value_scale: Tensor | None = None
    value_offset: Tensor | None = None
    sink: Tensor | None = None

    @property
    def layouts(self) -> tuple[str, str]:
        """The layout of the inputs and of the result."""
        first, _, second = self.layout.partition("_")
        if first not in (*_WHOLE, *_PACKED) or (second and second not in _RESULTS):
            raise NotCovered(self.operator, f"input_layout '{self.layout}'")
        return first, second or first


def infer(problem: Problem) -> tuple[Tensor, Tensor]:
    """The result in its layout, and the logarithm of every softmax sum."""
    layout, result_layout = problem.layouts
    found = [_one(problem, batch, query) for batch, query in enumerate(_queries(problem, layout))]
    if layout in _PACKED:
        out = torch.cat([r.out[0] for r in found], 1)
        sums = torch.cat([_logarithm(r)[0] for r in found], 1).transpose(0, 1)
        return (out if result_layout == "NTD" else out.transpose(0, 1)).contiguous(), sums.contiguous()
    tokens = to_heads(problem.query, layout, problem.heads).shape[2]
    out = torch.cat([_padded(r.out, tokens, 0.0) for r in found])
    sums = torch.cat([_padded(_logarithm(r), tokens, torch.inf) for r in found])
    return from_heads(out, result_layout), sums


def _logarithm(result: Result) -> Tensor:
    value = result.largest + result.total.log()
    return torch.where(result.total == 0, torch.full_like(value, torch.inf), value)


def _padded(x: Tensor, tokens: int, value: float) -> Tensor:
    return torch.nn.functional.pad(x, (0, 0, 0, tokens - x.shape[2]), value=value)


def _queries(p: Problem, layout: str) -> list[Tensor]:
    """The queries of each batch, `[1, N, S, D]`, the rope part behind the other."""
    query = p.query if p.query_rope is None else torch.cat((p.query, p.query_rope), -1)
    if layout in _PACKED:
        if not p.query_ends:
            raise NotCovered(p.operator, f"layout {layout} without the lengths of the queries")
        return pieces(query if layout == "TND" else query.transpose(0, 1), p.query_ends)
    whole = to_heads(p.query, layout, p.heads)
    if p.query_rope is not None:
        whole = torch.cat((whole, to_heads(p.query_rope, layout, p.heads)), -1)
    # with one query CANN takes the operator of decoding, which is told no lengths of queries
    lengths = _lengths(None if whole.shape[2] == 1 else p.query_ends, whole.shape[0])
    return [whole[b : b + 1, :, : lengths[b]] for b in range(whole.shape[0])]


def _lengths(given: Sequence[int] | None, batches: int) -> Sequence[int | None]:
    if not given:
        return [None] * batches
    return list(given) * batches if len(given) == 1 else given


def _one(p: Problem, batch: int, query: Tensor) -> Result:
    key = _widened(_keys(p, p.key, batch), p.key_scale, p.key_offset)
    value = _widened(_keys(p, p.value, batch), p.value_scale, p.value_offset)
    if p.key_rope is not None:
        key = torch.cat((key, _keys(p, p.key_rope, batch).to(key.dtype)), -1)
    bias = None
    if p.bias is not None:
        row = batch if p.bias.shape[0] > 1 else 0
        bias = p.bias[row : row + 1, :, : query.shape[2], : key.shape[2]]
    mask = _mask(p, batch)
    return attend(
        query,
        key,
        value,
        scale=p.scale,
        visible=p.visible,
        mask=mask,
        operator=p.operator,
        bias=bias,
        sink=p.sink,
    )


def _keys(p: Problem, x: Tensor, batch: int) -> Tensor:
    """Keys (or values) of one batch as `[1, N, S, D]`."""
    layout = p.layouts[0]
    if p.pages is not None:
        return _from_pages(p, x, p.pages[batch], batch)
    if layout in _PACKED:
        ends = p.key_ends or p.query_ends or ()
        return pieces(x if layout == "TND" else x.transpose(0, 1), ends)[batch]
    whole = to_heads(x, layout, p.key_heads)
    return whole[batch : batch + 1, :, : _lengths(p.key_ends, whole.shape[0])[batch]]


def _from_pages(p: Problem, cache: Tensor, table: Tensor, batch: int) -> Tensor:
    """The blocks of one batch, put together: `[blocks, block, H]`, `[blocks, N, block, D]` or in strips."""
    if not p.key_ends:
        raise NotCovered(p.operator, "a block table without the lengths of the keys")
    length = _lengths(p.key_ends, p.pages.shape[0] if p.pages is not None else 1)[batch] or 0
    block = cache.shape[{3: 1, 4: 2, 5: 3}[cache.dim()]]
    blocks = cache[table[: (length + block - 1) // block].to(torch.int64)]
    if cache.dim() == 3:
        blocks = blocks.unflatten(-1, (p.key_heads, -1)).transpose(1, 2)
    elif cache.dim() == 5:
        blocks = blocks.transpose(2, 3).flatten(3)
    return blocks.transpose(0, 1).flatten(1, 2)[:, :length].unsqueeze(0)


def _widened(x: Tensor, scale: Tensor | None, offset: Tensor | None) -> Tensor:
    """Keys or values stored in 8 bits: `(x + offset) * scale`, per head and channel or for all."""
    if scale is None:
        return x

    def spread(t: Tensor) -> Tensor:
        return wide(t).reshape(()) if t.numel() == 1 else wide(t).reshape(1, x.shape[1], 1, x.shape[3])

    values = wide(x) if offset is None else wide(x) + spread(offset)
    return values * spread(scale)


def _mask(p: Problem, batch: int) -> Tensor | None:
    """The part of the mask that is for one batch."""
    if p.mask is None:
        return None
    if p.mask.dim() == 2 and p.layouts[0] in _WHOLE and p.query.shape[0] == p.mask.shape[0] > 1:
        one_token = to_heads(p.query, p.layouts[0], p.heads).shape[2] == 1
        return p.mask[batch].view(1, 1, 1, -1) if one_token else p.mask
    if p.mask.dim() == 2:
        return p.mask
    row = batch if p.mask.shape[0] > 1 else 0
    one = p.mask[row : row + 1]
    return one.unsqueeze(1) if one.dim() == 3 else one


def empty_results(problem: Problem, dtype: torch.dtype, wants_sums: bool) -> tuple[Tensor, Tensor]:
    """Empty results of the right size."""
    layout, result_layout = problem.layouts
    query, heads = problem.query, problem.heads
    width = _value_width(problem)
    if layout in _PACKED:
        tokens = query.shape[0 if layout == "TND" else 1]
        size: tuple[int, ...] = (tokens, heads, width) if result_layout == "TND" else (heads, tokens, width)
        sums: tuple[int, ...] = (tokens, heads, 1)
    else:
        batches, _, tokens, _ = to_heads(query, layout, heads).shape
        sizes = {"B": batches, "N": heads, "S": tokens, "D": width, "H": heads * width}
        size = tuple(sizes[axis] for axis in result_layout)
        sums = (batches, heads, tokens, 1)
    return query.new_empty(size, dtype=dtype), query.new_empty(
        sums if wants_sums else (0,), dtype=torch.float32
    )


def _value_width(p: Problem) -> int:
    layout = p.layouts[0]
    if p.pages is not None and p.value.dim() == 5:
        return p.value.shape[2] * p.value.shape[4]
    if (p.pages is not None and p.value.dim() == 3) or (p.pages is None and layout == "BSH"):
        return p.value.shape[-1] // p.key_heads
    return p.value.shape[-1]
