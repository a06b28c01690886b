"""Latent attention in NPU model code: what fills the caches, in place."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from air_geir.building import Context, Value
from air_geir.converters._registry import converts


def _kv(
    ctx: Context, kv: Value, gamma: Value, cos: Value, sin: Value, index: Value, k_cache: Value, ckv_cache: Value,
    optional: Mapping[str, Value | None], epsilon: float, cache_mode: str, is_output_kv: bool, *types: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """The new caches, the turned part and the normalised part."""
    if any(t is not None for t in types):
        ctx.refuse("caches stored as another type have no operator here")
    fed: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    return ctx.emit_many(
        "KvRmsNormRopeCache", kv, gamma, cos, sin, index, k_cache, ckv_cache, **fed, epsilon=float(epsilon),
        cache_mode=cache_mode, is_output_kv=is_output_kv,
        dtype=[k_cache.dtype, ckv_cache.dtype, kv.dtype, kv.dtype],
        shape=[k_cache.dims, ckv_cache.dims, (*kv.dims[:3], cos.dims[-1]), (*kv.dims[:3], gamma.dims[0])],
    )  # fmt: skip


@converts("npu.npu_kv_rmsnorm_rope_cache.default")
def npu_kv_rmsnorm_rope_cache(
    ctx: Context, kv: Value, gamma: Value, cos: Value, sin: Value, index: Value, k_cache: Value, ckv_cache: Value,
    *, k_rope_scale: Value | None = None, c_kv_scale: Value | None = None, k_rope_offset: Value | None = None,
    c_kv_offset: Value | None = None, v: Value | None = None, epsilon: float = 1e-05, cache_mode: str = "Norm",
    is_output_kv: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_kv_rmsnorm_rope_cache(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor k_cache, Tensor ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1.0000000000000001e-05, str cache_mode="Norm", bool is_output_kv=False) -> (Tensor, Tensor, Tensor, Tensor)

    It writes the caches although its schema does not say so.
    """  # noqa: E501
    optional = {"k_rope_scale": k_rope_scale, "c_kv_scale": c_kv_scale, "k_rope_offset": k_rope_offset,
                "c_kv_offset": c_kv_offset, "v": v}  # fmt: skip
    made = _kv(
        ctx, kv, gamma, cos, sin, index, k_cache, ckv_cache, optional, epsilon, cache_mode, is_output_kv
    )
    ctx.written["k_cache"], ctx.written["ckv_cache"] = made[0], made[1]
    return made


@converts("npu.npu_kv_rmsnorm_rope_cache_v2.default")
def npu_kv_rmsnorm_rope_cache_v2(
    ctx: Context, kv: Value, gamma: Value, cos: Value, sin: Value, index: Value, k_cache: Value, ckv_cache: Value,
    *, k_rope_scale: Value | None = None, c_kv_scale: Value | None = None, k_rope_offset: Value | None = None,
    c_kv_offset: Value | None = None, v: Value | None = None, epsilon: float = 1e-05, cache_mode: str = "Norm",
    is_output_kv: bool = False, k_cache_dtype: Any = None, ckv_cache_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_kv_rmsnorm_rope_cache_v2(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor(a!) k_cache, Tensor(b!) ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1.0000000000000001e-05, str cache_mode="Norm", bool is_output_kv=False, int? k_cache_dtype=None, int? ckv_cache_dtype=None) -> (Tensor, Tensor)"""  # noqa: E501
    optional = {"k_rope_scale": k_rope_scale, "c_kv_scale": c_kv_scale, "k_rope_offset": k_rope_offset,
                "c_kv_offset": c_kv_offset, "v": v}  # fmt: skip
    made = _kv(
        ctx, kv, gamma, cos, sin, index, k_cache, ckv_cache, optional, epsilon, cache_mode, is_output_kv,
        k_cache_dtype, ckv_cache_dtype,
    )  # fmt: skip
    ctx.written["k_cache"], ctx.written["ckv_cache"] = made[0], made[1]
    return made[2:]


@converts("npu.npu_kv_rmsnorm_rope_cache_v2_functional.default")
def npu_kv_rmsnorm_rope_cache_v2_functional(
    ctx: Context, kv: Value, gamma: Value, cos: Value, sin: Value, index: Value, k_cache: Value, ckv_cache: Value,
    *, k_rope_scale: Value | None = None, c_kv_scale: Value | None = None, k_rope_offset: Value | None = None,
    c_kv_offset: Value | None = None, v: Value | None = None, epsilon: float = 1e-05, cache_mode: str = "Norm",
    is_output_kv: bool = False, k_cache_dtype: Any = None, ckv_cache_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_kv_rmsnorm_rope_cache_v2_functional(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor k_cache, Tensor ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1.0000000000000001e-05, str cache_mode="Norm", bool is_output_kv=False, int? k_cache_dtype=None, int? ckv_cache_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    optional = {"k_rope_scale": k_rope_scale, "c_kv_scale": c_kv_scale, "k_rope_offset": k_rope_offset,
                "c_kv_offset": c_kv_offset, "v": v}  # fmt: skip
    k_cache, ckv_cache = (ctx.emit("TensorMove", c, shape=c.shape) for c in (k_cache, ckv_cache))
    made = _kv(
        ctx, kv, gamma, cos, sin, index, k_cache, ckv_cache, optional, epsilon, cache_mode, is_output_kv, k_cache_dtype,
        ckv_cache_dtype,
    )  # fmt: skip
    return *made[2:], *made[:2]


_MLA = (
    "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq", "rmsnorm_gamma_ckv",
    "rope_sin", "rope_cos", "kv_cache", "kr_cache", "cache_index", "dequant_scale_x", "dequant_scale_w_dq",
    "dequant_scale_w_uq_qr", "dequant_scale_w_dkv_kr", "quant_scale_ckv", "quant_scale_ckr", "smooth_scales_cq",
    "actual_seq_len", "k_nope_clip_alpha",
)  # fmt: skip
_TYPES = ("token_x_dtype", "weight_dq_dtype", "weight_uq_qr_dtype", "weight_dkv_kr_dtype", "kv_cache_dtype")


def _prolog(ctx: Context, given: Mapping[str, Any]) -> tuple[Value, ...]:
    """query, query_rope, kv_cache, kr_cache, dequant_scale_q_nope, query_norm, dequant_scale_q_norm"""
    for name in _TYPES:
        if given[name] is not None:
            ctx.refuse(
                f"{name}={given[name]} has no operator here", "pass tensors in the types they are meant in"
            )
    inputs = {name: given[name] for name in _MLA if given[name] is not None}
    attrs = {n: v for n, v in given.items() if n not in (*_MLA, *_TYPES, "ctx", "self")}
    dtypes = [m.dtype for m in ctx.meta]
    caches = [given["kv_cache"], given["kr_cache"]]
    return ctx.emit_many(
        "MlaPrologV3", **inputs, attrs=attrs, dtype=[*dtypes[:2], *(c.dtype for c in caches), *dtypes[2:5]],
        shape=[None, None, *(c.dims for c in caches), None, None, None],
    )  # fmt: skip


@converts("npu.npu_mla_prolog_v3.default")
def npu_mla_prolog_v3(
    ctx: Context, token_x: Value, weight_dq: Value, weight_uq_qr: Value, weight_uk: Value, weight_dkv_kr: Value,
    rmsnorm_gamma_cq: Value, rmsnorm_gamma_ckv: Value, rope_sin: Value, rope_cos: Value, kv_cache: Value,
    kr_cache: Value, *, cache_index: Value | None = None, dequant_scale_x: Value | None = None,
    dequant_scale_w_dq: Value | None = None, dequant_scale_w_uq_qr: Value | None = None,
    dequant_scale_w_dkv_kr: Value | None = None, quant_scale_ckv: Value | None = None,
    quant_scale_ckr: Value | None = None, smooth_scales_cq: Value | None = None,
    actual_seq_len: Value | None = None, k_nope_clip_alpha: Value | None = None,
    rmsnorm_epsilon_cq: float = 1e-05, rmsnorm_epsilon_ckv: float = 1e-05, cache_mode: str = "PA_BSND",
    query_norm_flag: bool = False, weight_quant_mode: int = 0, kv_cache_quant_mode: int = 0,
    query_quant_mode: int = 0, ckvkr_repo_mode: int = 0, quant_scale_repo_mode: int = 0, tile_size: int = 128,
    qc_qr_scale: float = 1.0, kc_scale: float = 1.0, token_x_dtype: Any = None, weight_dq_dtype: Any = None,
    weight_uq_qr_dtype: Any = None, weight_dkv_kr_dtype: Any = None, kv_cache_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_mla_prolog_v3(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, Tensor(a!) kv_cache, Tensor(b!) kr_cache, *, Tensor? cache_index=None, Tensor? dequant_scale_x=None, Tensor? dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? smooth_scales_cq=None, Tensor? actual_seq_len=None, Tensor? k_nope_clip_alpha=None, float rmsnorm_epsilon_cq=1.0000000000000001e-05, float rmsnorm_epsilon_ckv=1.0000000000000001e-05, str cache_mode="PA_BSND", bool query_norm_flag=False, int weight_quant_mode=0, int kv_cache_quant_mode=0, int query_quant_mode=0, int ckvkr_repo_mode=0, int quant_scale_repo_mode=0, int tile_size=128, float qc_qr_scale=1., float kc_scale=1., int? token_x_dtype=None, int? weight_dq_dtype=None, int? weight_uq_qr_dtype=None, int? weight_dkv_kr_dtype=None, int? kv_cache_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    query, rope, kv, kr, *scales = _prolog(ctx, dict(locals()))
    ctx.written["kv_cache"], ctx.written["kr_cache"] = kv, kr
    return query, rope, *scales


_PROLOG = inspect.signature(npu_mla_prolog_v3)


def npu_mla_prolog_v3_functional(ctx: Context, *args: Any, **kwargs: Any) -> tuple[Value, ...]:
    """npu_mla_prolog_v3_functional(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, Tensor kv_cache, Tensor kr_cache, *, Tensor? cache_index=None, Tensor? dequant_scale_x=None, Tensor? dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? smooth_scales_cq=None, Tensor? actual_seq_len=None, Tensor? k_nope_clip_alpha=None, float rmsnorm_epsilon_cq=1.0000000000000001e-05, float rmsnorm_epsilon_ckv=1.0000000000000001e-05, str cache_mode="PA_BSND", bool query_norm_flag=False, int weight_quant_mode=0, int kv_cache_quant_mode=0, int query_quant_mode=0, int ckvkr_repo_mode=0, int quant_scale_repo_mode=0, int tile_size=128, float qc_qr_scale=1., float kc_scale=1., int? token_x_dtype=None, int? weight_dq_dtype=None, int? weight_uq_qr_dtype=None, int? weight_dkv_kr_dtype=None, int? kv_cache_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)

    It takes what npu_mla_prolog_v3 takes, and writes copies of the caches.
    """  # noqa: E501
    bound = _PROLOG.bind(ctx, *args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    for name in ("kv_cache", "kr_cache"):
        given[name] = ctx.emit("TensorMove", given[name], shape=given[name].shape)
    query, rope, kv, kr, *scales = _prolog(ctx, given)
    return query, rope, *scales, kv, kr


npu_mla_prolog_v3_functional.arguments = list(_PROLOG.parameters)[1:]  # type: ignore[attr-defined]  # read by check
converts("npu.npu_mla_prolog_v3_functional.default")(npu_mla_prolog_v3_functional)
