"""One step for the keys and values of latent attention: normalise one part, turn the other, store both.

`kv` is `[batch, 1, tokens, latent + rope]`. The latent part is RMS-normalised and goes to `ckv_cache`, the
rope part is turned (even and odd elements first made halves) and goes to `k_cache`. `cache_mode` says how a
cache is addressed; a negative index leaves the cache alone.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._normalise import normalised
from air_fxpasses.npu_cards._quantise import rounded
from air_fxpasses.npu_cards._rotate import deinterleaved, rotated
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards._slots import store
from air_fxpasses.npu_cards._types import Code, wide
from air_fxpasses.npu_cards.errors import NotCovered

_NAME: Final = "npu_kv_rmsnorm_rope_cache_v2"


def _for_cache(x: Tensor, cache: Tensor, scale: Tensor | None, offset: Tensor | None) -> Tensor:
    if scale is None:
        return x.to(cache.dtype)
    values = wide(x) * wide(scale)
    return rounded(values if offset is None else values + wide(offset), cache.dtype)


def kv_rmsnorm_rope_cache_v2(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_rope_scale: Tensor | None = None,
    c_kv_scale: Tensor | None = None,
    k_rope_offset: Tensor | None = None,
    c_kv_offset: Tensor | None = None,
    v: Tensor | None = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    k_cache_dtype: Code = None,
    ckv_cache_dtype: Code = None,
) -> tuple[Tensor, Tensor]:
    """Updates both caches; returns the turned and the normalised part.

    The device fills the two results only with `is_output_kv`; here they are always there.
    """
    if v is not None:
        raise NotCovered(_NAME, "values of their own (v)")
    if k_cache_dtype is not None or ckv_cache_dtype is not None:
        raise NotCovered(_NAME, "caches stored as another type")
    latent, rope = kv.split((gamma.shape[0], kv.shape[-1] - gamma.shape[0]), -1)
    turned = rotated(deinterleaved(rope), cos, sin, "half", _NAME)
    c_kv = normalised(latent, gamma, epsilon)[0].to(kv.dtype)
    store(k_cache, index, _for_cache(turned, k_cache, k_rope_scale, k_rope_offset), cache_mode, _NAME)
    store(ckv_cache, index, _for_cache(c_kv, ckv_cache, c_kv_scale, c_kv_offset), cache_mode, _NAME)
    return turned.contiguous(), c_kv.contiguous()


def kv_rmsnorm_rope_cache_v2_functional(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As the writing operator, on copies of the caches, which are returned."""
    caches = k_cache.clone(), ckv_cache.clone()
    results = kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, *caches, **options)
    return *results, *caches


def kv_rmsnorm_rope_cache(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Updates both caches although its schema does not say so: models rely on it, as on the device."""
    results = kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, k_cache, ckv_cache, **options)
    return k_cache, ckv_cache, *results


def _fake(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    v = options.get("v")
    torch._check(kv.dim() == 4 and cos.dim() == 4, lambda: f"{_NAME} takes kv and cos of four axes")
    torch._check(gamma.dim() == 1, lambda: f"{_NAME} takes gamma of one axis")
    rope, latent = (cos.shape[3], gamma.shape[0]) if v is None else (kv.shape[3], v.shape[3])
    return kv.new_empty((*kv.shape[:3], rope)), kv.new_empty((*kv.shape[:3], latent))


def _functional_fake(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *_fake(*args, **options), torch.empty_like(args[5]), torch.empty_like(args[6])


def _first_fake(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.empty_like(args[5]), torch.empty_like(args[6]), *_fake(*args, **options)


def _stored(draw: Draw) -> list[Sample]:
    one = draw.real(2, 1, 1, 576), draw.real(512), draw.real(2, 1, 1, 64), draw.real(2, 1, 1, 64)
    caches, pages = [(draw.real(*size, 64), draw.real(*size, 512)) for size in ((2, 1, 8), (2, 16, 1))]
    options = {"is_output_kv": True}
    return [
        Sample((*one, torch.tensor([[1], [2]]), *caches), options),
        Sample((*one, torch.tensor([5, 17]), *pages), {**options, "cache_mode": "PA_BNSD"}, "pages"),
    ]


OPS: Final = (
    NpuOp(
        "npu_kv_rmsnorm_rope_cache",
        kv_rmsnorm_rope_cache,
        _stored,
        _first_fake,
        ir=Ir("KvRmsNormRopeCache", writes={"k_cache": "k_cache", "ckv_cache": "ckv_cache"}),
    ),
    NpuOp(
        _NAME,
        kv_rmsnorm_rope_cache_v2,
        _stored,
        _fake,
        functional=f"{_NAME}_functional",
        ir=Ir("KvRmsNormRopeCache", gives=("k_rope", "c_kv")),
    ),
    NpuOp(
        f"{_NAME}_functional",
        kv_rmsnorm_rope_cache_v2_functional,
        _stored,
        _functional_fake,
        ir=Ir("KvRmsNormRopeCache", gives=("k_rope", "c_kv", "k_cache", "ckv_cache")),
    ),
)
