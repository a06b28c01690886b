"""Quantisation of NPU model code: alone, behind a norm, and around products and caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.types import DataType


def _dtypes(ctx: Context) -> list[torch.dtype]:
    """The types torch gives for the results."""
    return [m.dtype for m in ctx.meta]


def _no_types(ctx: Context, **given: Any) -> None:
    """Arguments that say what bytes mean, where torch has no such type."""
    for name, value in given.items():
        if value is not None:
            ctx.refuse(f"{name}={value} has no operator here", "pass tensors in the types they are meant in")


@converts("npu.npu_add_rms_norm_quant.default")
def npu_add_rms_norm_quant(
    ctx: Context, x1: Value, x2: Value, gamma: Value, scales1: Value, zero_points1: Value | None = None,
    beta: Value | None = None, scales2: Value | None = None, zero_points2: Value | None = None, *,
    axis: int = -1, epsilon: float = 1e-06, div_mode: bool = True, dst_type: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_add_rms_norm_quant(Tensor x1, Tensor x2, Tensor gamma, Tensor scales1, Tensor? zero_points1, Tensor? beta=None, Tensor? scales2=None, Tensor? zero_points2=None, *, int axis=-1, float epsilon=9.9999999999999995e-07, bool div_mode=True, int? dst_type=None) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    if axis != -1:
        ctx.refuse(f"axis {axis} has no operator here", "use axis=-1")
    return ctx.emit_many(
        "AddRmsNormQuant", x1, x2, gamma, scales1, scales2, zero_points1, zero_points2, beta, axis=axis,
        epsilon=float(epsilon), div_mode=div_mode, dst_type=DataType.of(ctx.out_dtype), dtype=_dtypes(ctx),
    )  # fmt: skip


@converts("npu.npu_add_rms_norm_dynamic_quant.default")
def npu_add_rms_norm_dynamic_quant(
    ctx: Context, x1: Value, x2: Value, gamma: Value, *, smooth_scale1: Value | None = None,
    smooth_scale2: Value | None = None, beta: Value | None = None, epsilon: float = 1e-06,
    output_mask: Sequence[bool] | None = None, y_dtype: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_add_rms_norm_dynamic_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? smooth_scale1=None, Tensor? smooth_scale2=None, Tensor? beta=None, float epsilon=9.9999999999999995e-07, bool[2]? output_mask=None, int? y_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    return ctx.emit_many(
        "AddRmsNormDynamicQuant", x1, x2, gamma, smooth_scale1, smooth_scale2, beta, epsilon=float(epsilon),
        output_mask=list(output_mask or []), dst_type=DataType.of(ctx.out_dtype), dtype=_dtypes(ctx),
    )  # fmt: skip


@converts("npu.npu_dynamic_quant.default")
def npu_dynamic_quant(
    ctx: Context, input: Value, *, smooth_scales: Value | None = None, group_index: Value | None = None,
    dst_type: Any = None, quant_mode: str = "pertoken", dst_type_max: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None, str quant_mode="pertoken", float dst_type_max=0.) -> (Tensor, Tensor)

    The operator finds a scale per row; a scale per column or for all is one per row of what is turned or laid flat.
    """  # noqa: E501
    if dst_type_max:
        ctx.refuse("a dst_type_max of your own has no operator here")
    if quant_mode not in ("pertoken", "pertensor", "perchannel"):
        ctx.refuse(f"quant_mode {quant_mode!r} has no operator here", "use pertoken, perchannel or pertensor")
    dtype = _dtypes(ctx)
    attrs = {"dst_type": DataType.of(dtype[0])}
    if quant_mode == "pertoken":
        return ctx.emit_many("DynamicQuant", input, smooth_scales, group_index, attrs=attrs, dtype=dtype)
    if smooth_scales is not None:
        input = ctx.emit("Mul", *ctx.promote(input, smooth_scales), shape=input.shape)
    if quant_mode == "pertensor":
        size: Any = 1
        for dim in input.dims:
            size = size * dim
        flat = ctx.reshape(input, (1, size))
        values, scale = ctx.emit_many("DynamicQuant", flat, attrs=attrs, dtype=dtype, shape=[flat.dims, (1,)])
        return ctx.reshape(values, input.dims), scale
    order = [*range(input.rank - 2), input.rank - 1, input.rank - 2]
    turned = ctx.transpose(input, order)
    values, scale = ctx.emit_many(
        "DynamicQuant", turned, attrs=attrs, dtype=dtype, shape=[turned.dims, turned.dims[:-1]]
    )
    return ctx.transpose(values, order), scale


_SPELLED = {torch.int8: "torch.qint8", torch.uint8: "torch.quint8", torch.int32: "torch.qint32"}


@converts("npu.npu_quantize.default")
def npu_quantize(
    ctx: Context, input: Value, scales: Value, zero_points: Value | None, dtype: Any, axis: int = 1,
    div_mode: bool = True,
) -> Value:  # fmt: skip
    """npu_quantize(Tensor input, Tensor scales, Tensor? zero_points, int dtype, int axis=1, bool div_mode=True) -> Tensor"""  # noqa: E501
    to = ctx.out_dtype
    if ctx.out_shape != input.dims:
        ctx.refuse("values of four bits, eight to a number, have no operator here", "quantise to 8 bits")
    if not div_mode:
        return ctx.emit(
            "AscendQuantV2", input, scales, zero_points, dst_type=DataType.of(to), axis=-2 if axis == -2 else -1,
            dtype=to, shape=input.shape,
        )  # fmt: skip
    if to not in _SPELLED:
        ctx.refuse(f"type {to} has no operator here", "quantise to 8 bits")
    return ctx.emit(
        "Quantize", input, scales, zero_points, attrs={"dtype": _SPELLED[to], "axis": axis}, dtype=to,
        shape=input.shape,
    )  # fmt: skip


@converts("npu.npu_trans_quant_param.default")
def npu_trans_quant_param(
    ctx: Context, scale: Value, offset: Value | None = None, round_mode: int | None = 0
) -> Value:
    """npu_trans_quant_param(Tensor scale, Tensor? offset=None, int? round_mode=0) -> Tensor"""
    return ctx.emit("TransQuantParamV2", scale, offset, round_mode=round_mode or 0, dtype=ctx.out_dtype)


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


@converts("npu.npu_weight_quant_batchmatmul.default")
def npu_weight_quant_batchmatmul(
    ctx: Context, x: Value, weight: Value, antiquant_scale: Value, antiquant_offset: Value | None = None,
    quant_scale: Value | None = None, quant_offset: Value | None = None, bias: Value | None = None,
    antiquant_group_size: int = 0, inner_precise: int = 0, weight_dtype: Any = None,
) -> Value:  # fmt: skip
    """npu_weight_quant_batchmatmul(Tensor x, Tensor weight, Tensor antiquant_scale, Tensor? antiquant_offset=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? bias=None, int antiquant_group_size=0, int inner_precise=0, int? weight_dtype=None) -> Tensor"""  # noqa: E501
    _no_types(ctx, weight_dtype=weight_dtype)
    if weight.dtype == torch.int32:
        ctx.refuse("weights of four bits, eight to a number, have no type in torch", "use weights of 8 bits")
    return ctx.emit(
        "WeightQuantBatchMatmulV2", x, weight, antiquant_scale, antiquant_offset, quant_scale, quant_offset, bias,
        antiquant_group_size=antiquant_group_size, dtype=ctx.out_dtype,
    )  # fmt: skip


def _scatter(
    ctx: Context, var: Value, indices: Value, updates: Value, scales: Value, zero_points: Value | None,
    **attrs: Any,
) -> Value:  # fmt: skip
    if attrs["reduce"] != "update":
        ctx.refuse(f"reduce {attrs['reduce']!r} has no operator here", "use reduce='update'")
    return ctx.emit(
        "QuantUpdateScatter", var, indices, updates, scales, zero_points, shape=var.shape, dtype=var.dtype,
        attrs=attrs,
    )  # fmt: skip


@converts("npu.npu_quant_scatter.default")
def npu_quant_scatter(
    ctx: Context, input: Value, indices: Value, updates: Value, quant_scales: Value,
    quant_zero_points: Value | None = None, axis: int = -2, quant_axis: int = -1, reduce: str = "update",
    dst_type: Any = None, round_mode: str | None = "rint",
) -> Value:  # fmt: skip
    """npu_quant_scatter(Tensor input, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? quant_zero_points=None, int axis=-2, int quant_axis=-1, str reduce="update", int? dst_type=None, str? round_mode="rint") -> Tensor"""  # noqa: E501
    return _scatter(
        ctx, ctx.emit("TensorMove", input, shape=input.shape), indices, updates, quant_scales, quant_zero_points,
        axis=axis, quant_axis=quant_axis, reduce=reduce, round_mode=round_mode or "rint",
    )  # fmt: skip


@converts("npu.npu_quant_scatter_.default")
def npu_quant_scatter_(
    ctx: Context, input: Value, indices: Value, updates: Value, quant_scales: Value,
    quant_zero_points: Value | None = None, axis: int = -2, quant_axis: int = -1, reduce: str = "update",
    dst_type: Any = None, round_mode: str | None = "rint",
) -> Value:  # fmt: skip
    """npu_quant_scatter_(Tensor(a!) input, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? quant_zero_points=None, int axis=-2, int quant_axis=-1, str reduce="update", int? dst_type=None, str? round_mode="rint") -> Tensor(a!)"""  # noqa: E501
    written = _scatter(
        ctx, input, indices, updates, quant_scales, quant_zero_points, axis=axis, quant_axis=quant_axis,
        reduce=reduce, round_mode=round_mode or "rint",
    )  # fmt: skip
    ctx.written["input"] = written
    return written
