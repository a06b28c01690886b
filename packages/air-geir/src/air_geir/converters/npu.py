"""Fused operators of NPU model code. They are named by qualified name: their library may be loaded later, or never."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.converters._registry import converts
from air_geir.lowering import Context, Value
from air_geir.types import DataType


@converts("npu.npu_rms_norm.default")
def npu_rms_norm(ctx: Context, input: Value, gamma: Value, epsilon: float = 1e-06) -> tuple[Value, ...]:
    """npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)"""
    return ctx.emit_many("RmsNorm", input, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


@converts("npu.npu_add_rms_norm.default", "npu.npu_add_rms_norm_v2_functional.default")
def npu_add_rms_norm(
    ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06
) -> tuple[Value, ...]:
    """npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)"""
    return ctx.emit_many("AddRmsNorm", x1, x2, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


@converts("npu.npu_add_rms_norm_cast.default")
def npu_add_rms_norm_cast(
    ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06
) -> tuple[Value, ...]:
    """npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many("AddRmsNormCast", x1, x2, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


def _dtypes(ctx: Context) -> list[torch.dtype]:
    """The types torch gives for the results."""
    metas = ctx.meta if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
    return [m.dtype for m in metas]


@converts("npu.npu_rotary_mul.default")
def npu_rotary_mul(
    ctx: Context, input: Value, r1: Value, r2: Value, rotary_mode: str = "half", rotate: Value | None = None
) -> Value:
    """npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor"""
    if rotate is not None:
        ctx.refuse("a rotation matrix of your own has no operator here")
    modes = {"half": 0, "interleave": 1, "quarter": 2, "interleave-half": 3}
    if rotary_mode not in modes:
        ctx.refuse(f"rotary_mode {rotary_mode!r} is unknown", f"use one of {', '.join(modes)}")
    if rotary_mode == "half":
        return ctx.emit("RotaryMul", input, r1, r2, shape=input.shape)
    return ctx.emit("RotaryPositionEmbedding", input, r1, r2, mode=modes[rotary_mode], shape=input.shape)


@converts("npu.npu_apply_rotary_pos_emb.default")
def npu_apply_rotary_pos_emb(
    ctx: Context,
    query: Value,
    key: Value,
    cos: Value,
    sin: Value,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Value, ...]:
    """npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', str rotary_mode='half') -> (Tensor, Tensor)"""  # noqa: E501
    layouts = {"BSND": 1, "BSH": 1, "SBND": 2, "BNSD": 3, "TND": 4}
    if layout not in layouts:
        ctx.refuse(f"layout {layout!r} is unknown", f"use one of {', '.join(layouts)}")
    moved = [ctx.emit("TensorMove", v, shape=v.shape) for v in (query, key)]
    return ctx.emit_many(
        "ApplyRotaryPosEmb",
        *moved,
        cos,
        sin,
        layout=layouts[layout],
        rotary_mode=rotary_mode,
        dtype=_dtypes(ctx),
    )


@converts("npu.npu_interleave_rope.default")
def npu_interleave_rope(ctx: Context, x: Value, cos: Value, sin: Value) -> Value:
    """npu_interleave_rope(Tensor x, Tensor cos, Tensor sin) -> Tensor"""
    return ctx.emit("InterleaveRope", x, cos, sin, shape=x.shape)


@converts("npu.npu_swiglu.default")
def npu_swiglu(ctx: Context, self: Value, dim: int = -1) -> Value:
    """npu_swiglu(Tensor input, int dim=-1) -> Tensor"""
    return ctx.emit("SwiGlu", self, dim=dim)


@converts("npu.npu_geglu.default")
def npu_geglu(
    ctx: Context, self: Value, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[Value, ...]:
    """npu_geglu(Tensor input, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)"""
    return ctx.emit_many("GeGluV2", self, dim=dim, approximate=approximate, activate_left=activate_left)


@converts("npu.npu_gelu.default")
def npu_gelu(ctx: Context, self: Value, *, approximate: str = "none") -> Value:
    """npu_gelu(Tensor input, *, str approximate='none') -> Tensor"""
    return ctx.emit("GeluV2", self, approximate=approximate)


@converts("npu.npu_fast_gelu.default", "npu.fast_gelu.default")
def npu_fast_gelu(ctx: Context, self: Value) -> Value:
    """npu_fast_gelu(Tensor input) -> Tensor"""
    return ctx.emit("FastGelu", self)


@converts("npu.npu_linear.default")
def npu_linear(ctx: Context, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    return ctx.emit("MatMulV2", input, weight, bias, transpose_x2=True)


@converts("npu.npu_transpose_batchmatmul.default")
def npu_transpose_batchmatmul(
    ctx: Context, input: Value, weight: Value, *, bias: Value | None = None, scale: Value | None = None,
    perm_x1: Sequence[int] | None = None, perm_x2: Sequence[int] | None = None,
    perm_y: Sequence[int] | None = None, batch_split_factor: int | None = 1,
) -> Value:  # fmt: skip
    """npu_transpose_batchmatmul(Tensor input, Tensor weight, *, Tensor? bias=None, Tensor? scale=None, int[]? perm_x1=None, int[]? perm_x2=None, int[]? perm_y=None, int? batch_split_factor=1) -> Tensor"""  # noqa: E501
    if scale is not None:
        ctx.refuse("a scale has no reference meaning here")
    return ctx.emit(
        "TransposeBatchMatMul", input, weight, bias, perm_x1=list(perm_x1 or [0, 1, 2]),
        perm_x2=list(perm_x2 or [0, 1, 2]), perm_y=list(perm_y or [1, 0, 2]),
        batch_split_factor=batch_split_factor or 1,
    )  # fmt: skip


@converts("npu._npu_dtype_cast.default")
def npu_dtype_cast_inner(ctx: Context, input: Value, dtype: Any) -> Value:
    """_npu_dtype_cast(Tensor input, ScalarType dtype) -> Tensor"""
    result: Value = npu_dtype_cast(ctx, input, dtype)
    return result


@converts("npu.npu_dtype_cast.default")
def npu_dtype_cast(ctx: Context, input: Value, dtype: Any, input_dtype: Any = None) -> Value:
    """npu_dtype_cast(Tensor input, int dtype, int? input_dtype=None) -> Tensor"""
    return ctx.cast(input, ctx.out_dtype) if input.dtype != ctx.out_dtype else ctx.emit("Identity", input)


@converts("npu.npu_dynamic_quant.default")
def npu_dynamic_quant(
    ctx: Context, input: Value, *, smooth_scales: Value | None = None, group_index: Value | None = None,
    dst_type: Any = None, quant_mode: str = "pertoken", dst_type_max: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None, str quant_mode="pertoken", float dst_type_max=0.0) -> (Tensor, Tensor)"""  # noqa: E501
    if quant_mode != "pertoken":
        ctx.refuse(f"quant_mode {quant_mode!r} has no operator here", "use quant_mode='pertoken'")
    return ctx.emit_many(
        "DynamicQuant",
        input,
        smooth_scales,
        group_index,
        dst_type=DataType.of(ctx.meta[0].dtype),
        dtype=_dtypes(ctx),
    )


@converts("npu.npu_quant_matmul.default")
def npu_quant_matmul(
    ctx: Context, x1: Value, x2: Value, scale: Value, *, offset: Value | None = None,
    pertoken_scale: Value | None = None, bias: Value | None = None, output_dtype: Any = None, x1_dtype: Any = None,
    x2_dtype: Any = None, pertoken_scale_dtype: Any = None, scale_dtype: Any = None, group_sizes: Any = None,
    y_scale: Value | None = None,
) -> Value:  # fmt: skip
    """npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, Tensor? bias=None, int? output_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? pertoken_scale_dtype=None, int? scale_dtype=None, int[]? group_sizes=None, Tensor? y_scale=None) -> Tensor"""  # noqa: E501
    if group_sizes or y_scale is not None:
        ctx.refuse("group_sizes and y_scale have no operator here")
    dtype = ctx.out_dtype
    return ctx.emit(
        "QuantBatchMatmulV3", x1, x2, scale, offset, bias, pertoken_scale, dtype=dtype,
        attrs={"dtype": DataType.of(dtype)},
    )  # fmt: skip


@converts("npu.npu_group_norm_silu.default")
def npu_group_norm_silu(
    ctx: Context, input: Value, weight: Value | None, bias: Value | None, group: int, eps: float = 0.00001
) -> tuple[Value, ...]:
    """npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many(
        "GroupNormSilu", input, weight, bias, num_groups=group, eps=float(eps), dtype=_dtypes(ctx)
    )


@converts("npu.npu_moe_gating_top_k_softmax.default")
def npu_moe_gating_top_k_softmax(
    ctx: Context, x: Value, finished: Value | None = None, k: int = 1
) -> tuple[Value, ...]:
    """npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)"""
    return ctx.emit_many("MoeGatingTopKSoftmax", x, finished, k=k, dtype=_dtypes(ctx))


@converts("npu.npu_moe_compute_expert_tokens.default")
def npu_moe_compute_expert_tokens(
    ctx: Context, sorted_expert_for_source_row: Value, num_expert: int
) -> Value:
    """npu_moe_compute_expert_tokens(Tensor sorted_expert_for_source_row, int num_expert) -> Tensor"""
    return ctx.emit("MoeComputeExpertTokens", sorted_expert_for_source_row, num_experts=num_expert)


@converts("npu.npu_scatter_nd_update.default")
def npu_scatter_nd_update(ctx: Context, self: Value, indices: Value, updates: Value) -> Value:
    """npu_scatter_nd_update(Tensor input, Tensor indices, Tensor updates) -> Tensor"""
    return ctx.emit("ScatterNdUpdate", ctx.emit("TensorMove", self, shape=self.shape), indices, updates)


@converts("npu.npu_scatter_nd_update_.default")
def npu_scatter_nd_update_(ctx: Context, self: Value, indices: Value, updates: Value) -> Value:
    """npu_scatter_nd_update_(Tensor(a!) input, Tensor indices, Tensor updates) -> Tensor(a!)"""
    written = ctx.emit("ScatterNdUpdate", self, indices, updates, shape=self.shape)
    ctx.written["self"] = written
    return written


@converts("npu.scatter_update.default")
def scatter_update(ctx: Context, self: Value, indices: Value, updates: Value, axis: int) -> Value:
    """scatter_update(Tensor input, Tensor indices, Tensor updates, int axis) -> Tensor"""
    moved = ctx.emit("TensorMove", self, shape=self.shape)
    return ctx.emit("Scatter", moved, indices, updates, reduce="update", axis=axis)


@converts("npu.scatter_update_.default")
def scatter_update_(ctx: Context, self: Value, indices: Value, updates: Value, axis: int) -> Value:
    """scatter_update_(Tensor(a!) input, Tensor indices, Tensor updates, int axis) -> Tensor(a!)"""
    written = ctx.emit("Scatter", self, indices, updates, reduce="update", axis=axis, shape=self.shape)
    ctx.written["self"] = written
    return written
