"""What comes before latent attention: projections, normalisations, rotary positions and the cache in one.

    cq = norm(x @ Wdq);  q = cq @ Wuq_qr, per head [q_nope | q_rope];  query = q_nope @ Wuk
    c = x @ Wdkv_kr = [ckv | k_rope];  kv_cache <- norm(ckv);  kr_cache <- turned(k_rope)

`qc_qr_scale` multiplies the normalised `cq`, `kc_scale` the normalised `ckv`. Quantised weights and caches
are not computed.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._normalise import normalised
from air_fxpasses.npu_cards._rotate import deinterleaved, rotated
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards._slots import store
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered

_NAME: Final = "npu_mla_prolog_v3"
_MODES: Final = ("weight_quant_mode", "kv_cache_quant_mode", "query_quant_mode", "ckvkr_repo_mode")
_TENSORS: Final = (
    "dequant_scale_x",
    "dequant_scale_w_dq",
    "dequant_scale_w_uq_qr",
    "dequant_scale_w_dkv_kr",
    "quant_scale_ckv",
    "quant_scale_ckr",
    "smooth_scales_cq",
    "k_nope_clip_alpha",
    "actual_seq_len",
)
_TYPES: Final = ("token_x_dtype", "weight_dq_dtype", "weight_uq_qr_dtype", "weight_dkv_kr_dtype")

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _refuse_quantised(options: dict[str, Any]) -> None:
    for name in _MODES:
        if options.get(name, 0) != 0:
            raise NotCovered(_NAME, f"{name}={options[name]}")
    for name in (*_TENSORS, *_TYPES, "kv_cache_dtype"):
        if options.get(name) is not None:
            raise NotCovered(_NAME, f"the argument {name}")


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return rotated(deinterleaved(x), cos, sin, "half", _NAME)


def mla_prolog_v3(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    *,
    cache_index: Tensor | None = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    cache_mode: str = "PA_BSND",
    query_norm_flag: bool = False,
    qc_qr_scale: float = 1.0,
    kc_scale: float = 1.0,
    **options: Any,
) -> Results:
    """Updates both caches; returns query, its rope part, two (here empty) scales and the normalised `cq`."""
    _refuse_quantised(options)
    if cache_index is None:
        raise NotCovered(_NAME, "a call without cache_index")
    heads, nope, _ = weight_uk.shape
    x, cos, sin = wide(token_x), rope_cos.unsqueeze(-2), rope_sin.unsqueeze(-2)
    cq = normalised(x @ wide(weight_dq), rmsnorm_gamma_cq, rmsnorm_epsilon_cq)[0] * qc_qr_scale
    q = (cq @ wide(weight_uq_qr)).unflatten(-1, (heads, -1))
    query = torch.einsum("...nd,ndc->...nc", q[..., :nope], wide(weight_uk))
    query_rope = _turned(q[..., nope:], cos, sin)
    kv = x @ wide(weight_dkv_kr)
    width = rmsnorm_gamma_ckv.shape[0]
    ckv = normalised(kv[..., :width], rmsnorm_gamma_ckv, rmsnorm_epsilon_ckv)[0] * kc_scale
    rope = _turned(kv[..., width:], rope_cos, rope_sin)
    for cache, rows in ((kv_cache, ckv), (kr_cache, rope)):
        lines = rows.to(cache.dtype).reshape(1, 1, -1, rows.shape[-1])
        store(cache, cache_index, lines, cache_mode, _NAME)
    empty = token_x.new_empty((0,), dtype=torch.float32)
    norm = cq.to(weight_uq_qr.dtype) if query_norm_flag else token_x.new_empty((0,), dtype=weight_uq_qr.dtype)
    dtype = token_x.dtype
    return query.to(dtype), query_rope.to(dtype), empty, norm, empty.clone()


def mla_prolog_v3_functional(*args: Any, **options: Any) -> tuple[Tensor, ...]:
    """As the writing operator, on copies of the caches, which are returned."""
    caches = args[9].clone(), args[10].clone()
    return *mla_prolog_v3(*(*args[:9], *caches), **options), *caches


def _fake(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    **options: Any,
) -> Results:
    _refuse_quantised(options)
    torch._check(token_x.dim() in (2, 3), lambda: f"{_NAME} takes token_x of two or three axes")
    torch._check(weight_uk.dim() == 3, lambda: f"{_NAME} takes weight_uk of three axes")
    torch._check(
        rope_sin.dim() == token_x.dim(), lambda: f"rope_sin of {_NAME} needs as many axes as token_x"
    )
    lead, heads = token_x.shape[:-1], weight_uk.shape[0]
    norm = (*lead, weight_dq.shape[1]) if options.get("query_norm_flag") else (0,)
    return (
        token_x.new_empty((*lead, heads, weight_uk.shape[2])),
        token_x.new_empty((*lead, heads, rope_sin.shape[-1])),
        token_x.new_empty((0,), dtype=torch.float32),
        token_x.new_empty(norm, dtype=weight_uq_qr.dtype),
        token_x.new_empty((0,), dtype=torch.float32),
    )


def _functional_fake(*args: Any, **options: Any) -> tuple[Tensor, ...]:
    return *_fake(*args, **options), torch.empty_like(args[9]), torch.empty_like(args[10])


def _prologs(draw: Draw) -> list[Sample]:
    tokens, hidden, low, heads, nope, rope, latent = 3, 64, 32, 2, 16, 8, 24
    sizes: tuple[tuple[int, ...], ...] = (
        (tokens, hidden), (hidden, low), (low, heads * (nope + rope)), (heads, nope, latent), (hidden, latent + rope),
        (low,), (latent,), (tokens, rope), (tokens, rope), (2, 16, 1, latent), (2, 16, 1, rope),
    )  # fmt: skip
    args = tuple(draw.real(*size, dtype=torch.bfloat16) for size in sizes)
    return [Sample(args, {"cache_index": torch.arange(4, 4 + tokens)})]


_RESULTS: Final = ("query", "query_rope", "dequant_scale_q_nope", "query_norm", "dequant_scale_q_norm")

OPS: Final = (
    NpuOp(
        _NAME,
        mla_prolog_v3,
        _prologs,
        _fake,
        functional=f"{_NAME}_functional",
        ir=Ir("MlaPrologV3", gives=_RESULTS),
    ),
    NpuOp(
        f"{_NAME}_functional",
        mla_prolog_v3_functional,
        _prologs,
        _functional_fake,
        ir=Ir("MlaPrologV3", gives=(*_RESULTS, "kv_cache", "kr_cache")),
    ),
)
