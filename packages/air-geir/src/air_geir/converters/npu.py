"""Fused operators of NPU model code. They are named by qualified name: their library may be loaded later, or never."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts


@converts("npu.npu_rms_norm.default")
def npu_rms_norm(ctx: Context, input: Value, gamma: Value, epsilon: float = 1e-06) -> tuple[Value, ...]:
    """npu_rms_norm(Tensor input, Tensor gamma, float epsilon=9.9999999999999995e-07) -> (Tensor, Tensor)"""
    return ctx.emit_many("RmsNorm", input, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


@converts("npu.npu_add_rms_norm.default")
def npu_add_rms_norm(
    ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06
) -> tuple[Value, ...]:
    """npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=9.9999999999999995e-07) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many("AddRmsNorm", x1, x2, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


def _summed(ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float) -> tuple[Value, ...]:
    rstd = ctx.out_dtype
    return ctx.emit_many(
        "AddRmsNorm", x1, x2, gamma, epsilon=float(epsilon), dtype=[x1.dtype, rstd, x1.dtype]
    )


@converts("npu.npu_add_rms_norm_v2_functional.default")
def npu_add_rms_norm_v2_functional(
    ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06
) -> tuple[Value, ...]:
    """npu_add_rms_norm_v2_functional(Tensor x1, Tensor x2, Tensor gamma, float epsilon=9.9999999999999995e-07) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    y, rstd, x = _summed(ctx, x1, x2, gamma, epsilon)
    return rstd, y, x


@converts("npu.npu_add_rms_norm_v2.default")
def npu_add_rms_norm_v2(ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06) -> Value:
    """npu_add_rms_norm_v2(Tensor(a!) x1, Tensor(b!) x2, Tensor gamma, float epsilon=9.9999999999999995e-07) -> Tensor"""  # noqa: E501
    y, rstd, x = _summed(ctx, x1, x2, gamma, epsilon)
    for name, target, value in (("x1", x1, y), ("x2", x2, x)):
        ctx.written[name] = stored(ctx, target, value)
    return rstd


def stored(ctx: Context, target: Value, value: Value) -> Value:
    """A new value for something that an operator writes: assigned where it is the caller's, else in its place."""
    value = Value(value.port, value.dtype, target.dims)
    if target.port.node.op_type in ("Data", "RefData", "Assign"):
        return ctx.emit("Assign", target, value, shape=target.shape)
    return value


@converts("npu.npu_add_rms_norm_cast.default")
def npu_add_rms_norm_cast(
    ctx: Context, x1: Value, x2: Value, gamma: Value, epsilon: float = 1e-06
) -> tuple[Value, ...]:
    """npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=9.9999999999999995e-07) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many("AddRmsNormCast", x1, x2, gamma, epsilon=float(epsilon), dtype=_dtypes(ctx))


def _dtypes(ctx: Context) -> list[torch.dtype]:
    """The types torch gives for the results."""
    metas = ctx.meta if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
    return [m.dtype for m in metas]


@converts("npu.npu_rotary_mul.default")
def npu_rotary_mul(
    ctx: Context, input: Value, r1: Value, r2: Value, rotary_mode: str = "half", rotate: Value | None = None
) -> Value:
    """npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode="half", Tensor? rotate=None) -> Tensor"""
    modes = {"half": 0, "interleave": 1, "quarter": 2, "interleave-half": 3}
    if rotary_mode not in modes:
        ctx.refuse(f"rotary_mode {rotary_mode!r} is unknown", f"use one of {', '.join(modes)}")
    if rotary_mode == "half" and rotate is None:
        return ctx.emit("RotaryMul", input, r1, r2, shape=input.shape)
    return ctx.emit(
        "RotaryPositionEmbedding", input, r1, r2, rotate, mode=modes[rotary_mode], shape=input.shape
    )


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
    """npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout="BSND", str rotary_mode="half") -> (Tensor, Tensor)"""  # noqa: E501
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
    """npu_gelu(Tensor input, *, str approximate="none") -> Tensor"""
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


@converts("npu.npu_group_norm_silu.default")
def npu_group_norm_silu(
    ctx: Context, input: Value, weight: Value | None, bias: Value | None, group: int, eps: float = 0.00001
) -> tuple[Value, ...]:
    """npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=1.0000000000000001e-05) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many(
        "GroupNormSilu", input, weight, bias, num_groups=group, eps=float(eps), dtype=_dtypes(ctx)
    )


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


def _plain_storage(ctx: Context, *types: Any) -> None:
    if any(t is not None for t in types):
        ctx.refuse("values stored as another type (customize_dtype, input_dtype) have no operator here")


@converts("npu.npu_format_cast.default")
def npu_format_cast(
    ctx: Context, input: Value, acl_format: int, *, customize_dtype: Any = None, input_dtype: Any = None
) -> Value:
    """npu_format_cast(Tensor input, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor

    Inside a graph the engine chooses formats itself: the values are what counts.
    """
    _plain_storage(ctx, customize_dtype, input_dtype)
    return ctx.emit("TensorMove", input, shape=input.shape)


@converts("npu.npu_format_cast.Tensor")
def npu_format_cast_like(
    ctx: Context, input: Value, dst: Value, *, customize_dtype: Any = None, input_dtype: Any = None
) -> Value:
    """npu_format_cast.Tensor(Tensor input, Tensor dst, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor"""  # noqa: E501
    _plain_storage(ctx, customize_dtype, input_dtype)
    return ctx.emit("TensorMove", input, shape=input.shape)


@converts("npu.npu_format_cast_.acl_format")
def npu_format_cast_(
    ctx: Context, input: Value, acl_format: int, *, customize_dtype: Any = None, input_dtype: Any = None
) -> Value:
    """npu_format_cast_.acl_format(Tensor(a!) input, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor(a!)"""  # noqa: E501
    _plain_storage(ctx, customize_dtype, input_dtype)
    return input


@converts("npu.npu_format_cast_.default")
def npu_format_cast_from(
    ctx: Context, input: Value, src: Value, *, customize_dtype: Any = None, input_dtype: Any = None
) -> Value:
    """npu_format_cast_(Tensor(a!) input, Tensor src, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor(a!)"""  # noqa: E501
    _plain_storage(ctx, customize_dtype, input_dtype)
    written = stored(ctx, input, ctx.broadcast(ctx.cast(src, input.dtype), input.dims))
    ctx.written["input"] = written
    return written


@converts("npu.npu_top_k_top_p.default")
def npu_top_k_top_p(ctx: Context, logits: Value, p: Value | None = None, k: Value | None = None) -> Value:
    """npu_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor"""
    wide, shape = ctx.cast(logits, torch.float32), logits.dims
    values, order = ctx.emit_many(
        "Sort", wide, axis=-1, stable=True, dtype=[torch.float32, torch.int32], shape=[shape, shape]
    )
    lowest = ctx.number(float("-inf"), torch.float32)
    count = ctx.size(shape[-1])
    if k is not None:
        last = ctx.emit("Sub", count, ctx.const(1, torch.int64), shape=())
        place = ctx.emit("Sub", count, ctx.cast(k, torch.int64), shape=k.shape)
        place = ctx.emit("Minimum", place, last, shape=k.shape)  # an engine may run the graph once over zeros
        place = ctx.reshape(place, (*k.dims, 1))
        least = ctx.emit("GatherElements", values, place, dim=-1, shape=(*shape[:-1], 1))
        values = ctx.emit(
            "MaskedFill", values, ctx.emit("Less", values, least, shape=shape), lowest, shape=shape
        )
    if p is not None:
        shares = ctx.emit("SoftmaxV2", values, axes=[-1], shape=shape)
        sums = ctx.emit("Cumsum", shares, ctx.const(-1, torch.int64), shape=shape)
        rest = ctx.emit("Sub", ctx.const(1.0, torch.float32), ctx.cast(p, torch.float32), shape=p.shape)
        tail = ctx.emit("LessEqual", sums, ctx.reshape(rest, (*p.dims, 1)), shape=shape)
        bounds = (ctx.const(0, torch.int64), count, ctx.const(1, torch.int64))
        places = ctx.emit("Range", *bounds, dtype=torch.int64, shape=(shape[-1],))
        last = ctx.emit("Sub", count, ctx.const(1, torch.int64), shape=())
        before = ctx.emit("Less", places, last, shape=(shape[-1],))
        hidden = ctx.emit("LogicalAnd", tail, before, dtype=torch.bool, shape=shape)
        values = ctx.emit("MaskedFill", values, hidden, lowest, shape=shape)
    base = ctx.fill(shape, 0, torch.float32)
    result = ctx.emit("ScatterElements", base, ctx.cast(order, torch.int64), values, axis=-1, shape=shape)
    return ctx.cast(result, logits.dtype)
