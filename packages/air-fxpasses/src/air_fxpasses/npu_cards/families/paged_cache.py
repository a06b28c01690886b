"""Keys and values of new tokens go to their slots in a cache of pages, for all heads at once.

| `cache_mode` | cache |
|---|---|
| `Norm`, None | `[blocks, block, heads, width]` |
| `PA_NZ` | `[blocks, heads * width / strip, block, strip]`, a strip being 32 bytes |

The slot of a token counts over all blocks. A negative slot stores nothing.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir, OrDefault
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards.errors import NotCovered

_NAME: Final = "npu_scatter_pa_kv_cache"


def scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:
    """Writes `[tokens, heads, width]` of both; each token's slot is in `slot_mapping`."""
    if key.dim() != 3 or any(x is not None for x in (compress_lens, compress_seq_offsets, seq_lens)):
        raise NotCovered(_NAME, "compressed caches (keys of four axes, compress_lens, seq_lens)")
    if cache_mode not in (None, "Norm", "PA_NZ"):
        raise NotCovered(_NAME, f"cache_mode '{cache_mode}'")
    slots = slot_mapping.reshape(-1).to(torch.int64)
    kept = slots >= 0
    for rows, cache in ((key, key_cache), (value, value_cache)):
        pages = cache.transpose(1, 2) if cache_mode == "PA_NZ" else cache
        block = pages.shape[1]
        laid = rows[kept].reshape(-1, *pages.shape[2:]).to(cache.dtype)
        pages.index_put_((slots[kept] // block, slots[kept] % block), laid)


def scatter_pa_kv_cache_functional(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """As the writing operator, on copies of the caches, which are returned."""
    keys, values = (x.clone(memory_format=torch.contiguous_format) for x in (key_cache, value_cache))
    scatter_pa_kv_cache(key, value, keys, values, slot_mapping, **options)
    return keys, values


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _copies(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    return key_cache.new_empty(key_cache.shape), value_cache.new_empty(value_cache.shape)


def _tokens(draw: Draw) -> list[Sample]:
    rows = draw.real(5, 2, 32), draw.real(5, 2, 64)
    pages = draw.real(3, 8, 2, 32), draw.real(3, 8, 2, 64)
    strips = draw.real(3, 4, 8, 16), draw.real(3, 8, 8, 16)
    slots = torch.tensor([3, 17, -1, 8, 23], dtype=torch.int32)
    return [
        Sample((*rows, *pages, slots), {"cache_mode": "Norm"}),
        Sample((*rows, *strips, slots), {}, "strips"),
    ]


_IR: Final = Ir(
    "ScatterPaKvCache",
    {"compress_seq_offset": "compress_seq_offsets", "cache_mode": OrDefault("cache_mode", "Norm")},
)

OPS: Final = (
    NpuOp(_NAME, scatter_pa_kv_cache, _tokens, _nothing, functional=f"{_NAME}_functional", ir=_IR),
    NpuOp(f"{_NAME}_functional", scatter_pa_kv_cache_functional, _tokens, _copies, ir=_IR),
)
