"""Where tokens go in a key-value cache.

| mode | cache | index |
|---|---|---|
| `Norm` (or empty) | `[batch, 1, places, width]` | `[batch, tokens]`: the place of each token |
| `PA`, `PA_BNSD` ... | `[blocks, block, 1, width]` | one slot per token, counted over all blocks |
| `PA_BLK_*` | the same | one slot per block of tokens: where that block begins |
| `PA_*NZ` | the same, each block in strips of 32 bytes | as without `NZ` |
"""

from __future__ import annotations

import torch
from torch import Tensor

from air_fxpasses.npu_cards.errors import NotCovered

_KNOWN = ("", "Norm", "PA", "PA_BNSD", "PA_BSND", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_BSND", "PA_BLK_NZ")


def store(cache: Tensor, index: Tensor, rows: Tensor, mode: str, operator: str) -> None:
    """Writes `rows`, `[batch, 1, tokens, width]`, to their places in `cache`."""
    if mode not in _KNOWN:
        raise NotCovered(operator, f"cache_mode '{mode}'")
    batch, _, tokens, width = rows.shape
    flat = rows.reshape(batch * tokens, width)
    if mode in ("", "Norm"):
        place = index.reshape(-1).to(torch.int64)
        owner = torch.arange(batch, device=cache.device).repeat_interleave(tokens)
        kept = place >= 0
        cache[:, 0].index_put_((owner[kept], place[kept]), flat[kept])
        return
    block = cache.shape[1]
    slots = _slots(index, mode, batch, tokens, block)
    kept = slots >= 0
    where, within = slots[kept] // block, slots[kept] % block
    if mode.endswith("NZ"):
        strip = 32 // cache.element_size()
        strips = cache.view(cache.shape[0], width // strip, block, strip)
        strips.transpose(1, 2).index_put_((where, within), flat[kept].reshape(-1, width // strip, strip))
    else:
        cache.view(cache.shape[0], block, width).index_put_((where, within), flat[kept])


def _slots(index: Tensor, mode: str, batch: int, tokens: int, block: int) -> Tensor:
    """The slot of each token; negative for one that is not stored."""
    given = index.reshape(-1).to(torch.int64)
    if "BLK" not in mode:
        return given
    per_batch = (tokens + block - 1) // block
    at = torch.arange(tokens, device=index.device)
    first = given.view(batch, per_batch)[:, at // block]
    return torch.where(first < 0, first, first + at % block).reshape(-1)
