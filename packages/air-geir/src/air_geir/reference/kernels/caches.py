"""Latent attention's caches: one step that normalises one part of a row, turns the other and stores both."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + epsilon) * gamma.float()


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Even elements first, then odd ones; the two halves turned against each other."""
    even, odd = x[..., ::2].float(), x[..., 1::2].float()
    halves, turned = torch.cat([even, odd], -1), torch.cat([-odd, even], -1)
    return (halves * cos.float() + turned * sin.float()).to(x.dtype)


class _Store:
    """Writes rows to their places in a cache; a negative place writes nothing."""

    def __init__(self, op: Operator) -> None:
        self.mode = _text(op.attr("cache_mode"))
        if self.mode not in ("", "Norm", "PA", "PA_BNSD", "PA_BSND"):
            raise op.refuse(f"cache_mode {self.mode!r} is not supported")

    def __call__(self, cache: Tensor, index: Tensor, rows: Tensor) -> None:
        """`rows` is (batch, tokens, width); paged caches count places over all their blocks."""
        paged = self.mode.startswith("PA")
        flat = cache.view(-1, cache.shape[-1])
        width = 0 if paged else flat.shape[0] // cache.shape[0]
        places = index.reshape(rows.shape[:2]) if not paged else index.reshape(1, -1)
        lines = rows if not paged else rows.reshape(1, -1, rows.shape[-1])
        for batch, (where, part) in enumerate(zip(places.tolist(), lines, strict=True)):
            for place, row in zip(where, part, strict=True):
                if place >= 0:
                    flat[batch * width + place] = row.to(cache.dtype)


def _stored(x: Tensor, scale: Tensor | None, offset: Tensor | None) -> Tensor:
    if scale is None:
        return x
    y = x.float() * scale.float()
    return torch.round(y if offset is None else y + offset.float()).clamp(-128, 127)


@kernel("KvRmsNormRopeCache", writes={"k_cache": 0, "ckv_cache": 1})
def kv_rms_norm_rope_cache(op: Operator) -> Run:
    """The latent part normalised, the rotary part turned, both written to their caches and given."""
    epsilon, store = op.attr("epsilon"), _Store(op)

    def run(
        kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, k_cache: Tensor, ckv_cache: Tensor,
        k_scale: Tensor | None, c_scale: Tensor | None, k_offset: Tensor | None, c_offset: Tensor | None,
        v: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if v is not None:
            raise op.refuse("values of their own are not supported")
        width = gamma.numel()
        latent = _rms(kv[..., :width], gamma, epsilon).to(kv.dtype)
        rope = _rope(kv[..., width:], cos, sin)
        store(k_cache, index, _stored(rope, k_scale, k_offset).squeeze(1))
        store(ckv_cache, index, _stored(latent, c_scale, c_offset).squeeze(1))
        return k_cache, ckv_cache, rope, latent

    return run


@kernel("MlaPrologV3", writes={"kv_cache": 2, "kr_cache": 3})
def mla_prolog(op: Operator) -> Run:
    """Everything before latent attention: projections, norms, rotary positions, and the caches written."""
    store, wants_norm = _Store(op), bool(op.attr("query_norm_flag"))
    eps_q, eps_kv = op.attr("rmsnorm_epsilon_cq"), op.attr("rmsnorm_epsilon_ckv")
    q_scale, kv_scale = op.attr("qc_qr_scale"), op.attr("kc_scale")
    modes = ("weight_quant_mode", "kv_cache_quant_mode", "query_quant_mode", "ckvkr_repo_mode")
    if any(int(op.attr(mode)) for mode in modes):
        raise op.refuse("quantised weights, queries and caches are not supported")

    def run(
        x: Tensor, w_dq: Tensor, w_uq: Tensor, w_uk: Tensor, w_dkv: Tensor, gamma_q: Tensor, gamma_kv: Tensor,
        sin: Tensor, cos: Tensor, kv_cache: Tensor, kr_cache: Tensor, index: Tensor | None,
        *others: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if index is None or any(t is not None for t in others):
            raise op.refuse("quantisation, and calls without cache_index, are not supported")
        heads, nope = w_uk.shape[:2]
        wide = x.float()
        latent_q = _rms(wide @ w_dq.float(), gamma_q, eps_q) * q_scale
        per_head = (latent_q @ w_uq.float()).unflatten(-1, (heads, -1))
        query = torch.stack([per_head[..., h, :nope] @ w_uk[h].float() for h in range(heads)], -2)
        query_rope = _rope(per_head[..., nope:], cos.unsqueeze(-2), sin.unsqueeze(-2))
        down = wide @ w_dkv.float()
        latent = _rms(down[..., : gamma_kv.numel()], gamma_kv, eps_kv) * kv_scale
        rope = _rope(down[..., gamma_kv.numel() :], cos, sin)
        for cache, rows in ((kv_cache, latent), (kr_cache, rope)):
            store(cache, index, rows.reshape(1, -1, rows.shape[-1]))
        norm = latent_q.to(w_uq.dtype) if wants_norm else w_uq.new_empty(0)
        made = (query.to(x.dtype), query_rope.to(x.dtype), kv_cache, kr_cache)
        return *made, torch.empty(0), norm, torch.empty(0)

    return run
