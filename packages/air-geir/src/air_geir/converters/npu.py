"""Operators of NPU model code that no single operator type computes, or that one does only after a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._foreign_types import held_in, read_as, type_and_shape, type_named
from air_geir.converters.experts import OF_COLUMNS, grouped_products
from air_geir.converters.indexing import scatter_add
from air_geir.converters.npu_by_card import by_card, stored
from air_geir.ir import as_dim
from air_geir.types import DataType


@by_card("npu_rotary_mul")
def npu_rotary_mul(
    ctx: Context, input: Value, r1: Value, r2: Value, rotary_mode: str, rotate: Value | None
) -> Value:
    """Halves have an operator type of their own."""
    modes = {"half": 0, "interleave": 1, "quarter": 2, "interleave-half": 3}
    if rotary_mode not in modes:
        ctx.refuse(f"rotary_mode {rotary_mode!r} is unknown", f"use one of {', '.join(modes)}")
    if rotary_mode == "half" and rotate is None:
        return ctx.emit("RotaryMul", input, r1, r2, shape=input.shape)
    mode = modes[rotary_mode]
    return ctx.emit("RotaryPositionEmbedding", input, r1, r2, rotate, mode=mode, shape=input.shape)


def _in_its_type(ctx: Context, value: Value) -> Value:
    """A cast to its own type is a copy."""
    return ctx.cast(value, ctx.out_dtype) if value.dtype != ctx.out_dtype else ctx.emit("Identity", value)


@by_card("npu_dtype_cast", "_npu_dtype_cast")
def npu_dtype_cast(ctx: Context, input: Value, dtype: Any, input_dtype: Any = None) -> Value:
    """A type that torch does not have is named by a number, and the tensor holds its bytes."""
    if input_dtype is not None:
        input = read_as(ctx, input, type_named(ctx, input_dtype))
    kind, dims = type_and_shape(ctx, "dtype", {"dtype": dtype}, ctx.meta)
    if input.port.desc.dtype == kind:
        return ctx.emit("Identity", input)
    return held_in(ctx, ctx.emit("Cast", input, dtype=kind, shape=dims, dst_type=kind), ctx.meta)


@by_card("npu_dtype_cast_backward", "_npu_dtype_cast_backward", ignored=("dtype",))
def npu_dtype_cast_backward(ctx: Context, grad: Value) -> Value:
    return _in_its_type(ctx, grad)


@by_card("npu_format_cast", "npu_format_cast.Tensor", ignored=("acl_format", "dst"))
def npu_format_cast(ctx: Context, input: Value) -> Value:
    """Inside a graph the engine chooses formats itself: the values are what counts."""
    return ctx.emit("TensorMove", input, shape=input.shape)


@by_card("npu_format_cast_.acl_format", ignored=("acl_format",))
def npu_format_cast_(ctx: Context, input: Value) -> Value:
    return input


@by_card("npu_format_cast_")
def npu_format_cast_from(ctx: Context, input: Value, src: Value) -> Value:
    written = stored(ctx, input, ctx.broadcast(ctx.cast(src, input.dtype), input.dims))
    ctx.written["input"] = written
    return written


@by_card(
    "_npu_fused_infer_attention_score_get_max_workspace",
    "_npu_fused_infer_attention_score_v2_get_max_workspace",
)
def workspace(ctx: Context, **given: Any) -> Value:
    """The engine plans scratch memory itself: the tensor can be passed on, and is not used."""
    return ctx.fill(ctx.out_shape, 0, ctx.out_dtype)


@by_card("npu_gather_backward")
def npu_gather_backward(
    ctx: Context, grad: Value, self_size: Sequence[Size], dim: int, index: Value, sparse_grad: bool
) -> Value:
    """Written with a scatter that adds."""
    if sparse_grad:
        ctx.refuse("a sparse gradient has no operator", "leave sparse_grad at False")
    added: Value = scatter_add(ctx, ctx.fill(self_size, 0, grad.dtype), dim, index, grad)
    return added


@by_card("npu_top_k_top_p")
def npu_top_k_top_p(ctx: Context, logits: Value, p: Value | None, k: Value | None) -> Value:
    """Written with a sort, and a scatter back."""
    wide, shape = ctx.cast(logits, torch.float32), logits.dims
    values, order = ctx.emit_many(
        "Sort", wide, axis=-1, stable=True, dtype=[torch.float32, torch.int32], shape=[shape, shape]
    )
    lowest = ctx.number(float("-inf"), torch.float32)
    count = ctx.size(shape[-1])
    last = ctx.emit("Sub", count, ctx.const(1, torch.int64), shape=())
    if k is not None:
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
        before = ctx.emit("Less", places, last, shape=(shape[-1],))
        hidden = ctx.emit("LogicalAnd", tail, before, dtype=torch.bool, shape=shape)
        values = ctx.emit("MaskedFill", values, hidden, lowest, shape=shape)
    base = ctx.fill(shape, 0, torch.float32)
    result = ctx.emit("ScatterElements", base, ctx.cast(order, torch.int64), values, axis=-1, shape=shape)
    return ctx.cast(result, logits.dtype)


@by_card("npu_dynamic_quant")
def npu_dynamic_quant(
    ctx: Context, input: Value, smooth_scales: Value | None, group_index: Value | None, dst_type: Any,
    quant_mode: str, dst_type_max: float,
) -> tuple[Value, ...]:  # fmt: skip
    """Scales of rows have an operator type of their own; another computes all modes, as TorchAir says it."""
    if quant_mode not in ("pertoken", "pertensor", "perchannel"):
        ctx.refuse(f"quant_mode {quant_mode!r} has no operator here", "use pertoken, perchannel or pertensor")
    if group_index is not None and quant_mode != "pertoken":
        ctx.refuse(f"groups of rows have no operator with quant_mode {quant_mode!r}", "use pertoken")
    kind = type_named(ctx, torch.int8 if dst_type is None else dst_type)
    scales = tuple(as_dim(size) for size in ctx.meta[1].shape)
    by_row = quant_mode == "pertoken" and not dst_type_max
    attrs: dict[str, Any] = {"dst_type": kind}
    if not by_row:
        attrs |= {"is_symmetrical": True, "quant_mode": quant_mode, "dst_type_max": dst_type_max}
    types: list[Any] = [kind, torch.float32] if by_row else [kind, torch.float32, torch.float32]
    values, scale, *_ = ctx.emit_many(
        "DynamicQuant" if by_row else "DynamicQuantV2", input, smooth_scales, group_index, attrs=attrs,
        dtype=types, shape=[input.dims, *[scales] * (len(types) - 1)],
    )  # fmt: skip
    return held_in(ctx, values, ctx.meta[0]), scale


_SPELLED = {torch.int8: "torch.qint8", torch.uint8: "torch.quint8", torch.int32: "torch.qint32"}


@by_card("npu_quantize")
def npu_quantize(
    ctx: Context,
    input: Value,
    scales: Value,
    zero_points: Value | None,
    dtype: Any,
    axis: int,
    div_mode: bool,
) -> Value:
    """Division and multiplication by scales are two operator types."""
    if not div_mode:
        kind = type_named(ctx, dtype)
        values = ctx.emit(
            "AscendQuantV2", input, scales, zero_points, dst_type=kind, axis=-2 if axis == -2 else -1, dtype=kind,
            shape=input.shape,
        )  # fmt: skip
        return held_in(ctx, values, ctx.meta)
    to = ctx.out_dtype
    if to not in _SPELLED or ctx.out_shape != input.dims:
        ctx.refuse(f"type {to} has no operator here", "quantise to 8 bits")
    return ctx.emit(
        "Quantize", input, scales, zero_points, attrs={"dtype": _SPELLED[to], "axis": axis}, dtype=to,
        shape=input.shape,
    )  # fmt: skip


Lists = Sequence[Value] | None


def _operand(ctx: Context, value: Value, left: Value | None = None) -> Value:
    """An operand of a product; int32 is four bits, eight to a number."""
    return read_as(ctx, value, DataType.INT4, left) if value.dtype == torch.int32 else value


@by_card("npu_grouped_matmul", "npu_grouped_matmul.List", ignored=("output_dtype",))
def npu_grouped_matmul(
    ctx: Context, x: Sequence[Value], weight: Sequence[Value], bias: Lists, scale: Lists, offset: Lists,
    antiquant_scale: Lists, antiquant_offset: Lists, per_token_scale: Lists, group_list: Value | Sequence[int] | None,
    split_item: int | None, group_type: int | None, group_list_type: int | None, act_type: int | None,
    tuning_config: Sequence[int] | None,
) -> tuple[Value, ...]:  # fmt: skip
    """Ends of groups that are given as numbers become a constant, and mean that rows are grouped.

    Where groups cut what x and weight have in common, the engine wants x as its rows lie: transposed.
    """
    if split_item not in (None, 0, 1, 2, 3):
        ctx.refuse(f"split_item {split_item} is unknown", "use 0, 1, 2 or 3")
    x = [_operand(ctx, one) for one in x]
    weight = [_operand(ctx, one, x[0]) for one in weight]
    if per_token_scale and len(per_token_scale) > 1:
        ctx.refuse("one per_token_scale for every x has no operator here", "pass one tensor")
    ends = None
    if isinstance(group_list, Value):
        ends = group_list
    elif group_list:
        ends = ctx.const(list(group_list), torch.int64)
        group_type = 0 if group_type is None else group_type
    group_type = -1 if group_type is None else group_type
    is_summed = group_type == OF_COLUMNS and len(x) == 1
    if is_summed:
        x = [ctx.transpose(x[0], [1, 0])]
    lists = {
        "bias": bias, "scale": scale, "offset": offset,
        "antiquant_scale": antiquant_scale, "antiquant_offset": antiquant_offset,
    }  # fmt: skip
    attrs = {
        "split_item": split_item or 0, "group_type": group_type, "group_list_type": group_list_type or 0,
        "act_type": act_type or 0, "tuning_config": list(tuning_config or [0]), "transpose_x": is_summed,
    }  # fmt: skip
    return grouped_products(
        ctx, x, weight, lists, [m.dtype for m in ctx.meta], attrs,
        group_list=ends, per_token_scale=per_token_scale[0] if per_token_scale else None,
    )  # fmt: skip
