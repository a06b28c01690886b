"""Tensors made from numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, f32, i32

aten = torch.ops.aten

Fill = Callable[..., Any]

# overload -> (position of the fill value among the arguments, or the value itself)
_FILLS: dict[str, int | float | str] = {
    "full.default": "arg1",
    "zeros.default": 0,
    "ones.default": 1,
    "empty.memory_format": 0,
    "empty_strided.default": 0,
    "empty_permuted.default": 0,
    "zeros_like.default": 0,
    "ones_like.default": 1,
    "empty_like.default": 0,
    "full_like.default": "arg1",
    "new_zeros.default": 0,
    "new_ones.default": 1,
    "new_empty.default": 0,
    "new_empty_strided.default": 0,
    "new_full.default": "arg2",
    "fill.Scalar": "arg1",
    "fill.Tensor": "arg1",
    "zero.default": 0,
}
_FILL_SAMPLES = {
    "full.default": (Sample([2, 3], 1.5), Sample([2], 3, dtype=torch.int32), Sample([], True)),
    "zeros.default": (Sample([2, 3]),),
    "ones.default": (Sample([2, 3], dtype=torch.bool),),
    "full_like.default": (Sample(f32(2, 3), 2.5), Sample(i32(3), 2)),
    "new_full.default": (Sample(f32(2, 3), [4], 2.5),),
    "fill.Scalar": (Sample(f32(2, 3), 2.5),),
    "fill.Tensor": (Sample(f32(2, 3), f32()),),
    "zeros_like.default": (Sample(f32(2, 3)),),
    "ones_like.default": (Sample(i32(2, 3)),),
    "zero.default": (Sample(f32(2, 3)),),
    "new_zeros.default": (Sample(f32(2), [3]),),
    "new_ones.default": (Sample(f32(2), [3]),),
}


def _fill(value: int | float | str) -> Body:
    """`empty` gives zeros: what was never written must at least be the same every time."""

    def convert(ctx: Context, *args: Any) -> Any:
        number = args[int(value[3:])] if isinstance(value, str) else value
        ctx.refuse_outside(number, ctx.out_dtype)
        return ctx.fill(ctx.out_shape, number, ctx.out_dtype)

    return convert


register_rows(_FILLS, _fill, lambda o: _FILL_SAMPLES.get(o, ()), "creation")


@converts(aten.scalar_tensor.default, samples=[Sample(2.5), Sample(3, dtype=torch.int64)])
def scalar_tensor(
    ctx: Context,
    s: Number,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    if working_dtype(ctx.out_dtype) != ctx.out_dtype:  # halves become infinite
        return ctx.number(s, ctx.out_dtype)
    return ctx.converted(s, ctx.out_dtype)


def _range(ctx: Context, start: Number, end: Number, step: Number) -> Value:
    """Whole numbers count in int64; fractions in double, where torch computes them too, and are cast at the end.

    A range of whole numbers has a whole start and step, rounded towards zero.
    """
    dtype = ctx.out_dtype
    count = ctx.out_shape[0]
    known = (int, float)
    if (
        not dtype.is_floating_point
        and isinstance(count, int)
        and isinstance(start, known)
        and isinstance(step, known)
    ):
        first, each = int(start), int(step)
        start, end, step = first, first + each * count, each
    whole = not any(isinstance(n, (float, torch.SymFloat)) for n in (start, end, step))
    counted = torch.int64 if whole else torch.float64
    bounds = [ctx.number(n, counted) for n in (start, end, step)]
    return ctx.cast(ctx.emit("Range", *bounds, dtype=counted, shape=ctx.out_shape), dtype)


@converts(
    aten.arange.start_step,
    samples=[
        Sample(0, 7, 2),
        Sample(1.0, 3.0, 0.25),
        Sample(5, -1, -2, dtype=torch.float32),
        Sample(2.1, -2.9, -1.0, dtype=torch.int64),
        Sample(2.1, -2.9, -1.5, dtype=torch.int32),
    ],
)
def arange_step(
    ctx: Context, start: Number, end: Number, step: Number = 1, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Value:  # fmt: skip
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _range(ctx, start, end, step)


@converts(aten.arange.start, samples=[Sample(2, 7), Sample(0.5, 3)])
def arange_start(
    ctx: Context, start: Number, end: Number, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Value:  # fmt: skip
    """arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _range(ctx, start, end, 1)


@converts(aten.arange.default, samples=[Sample(7), Sample(3.5)])
def arange(
    ctx: Context,
    end: Number,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    """arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _range(ctx, 0, end, 1)


@converts(
    "prims.iota.default",
    samples=[Sample(5, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False)],
)
def iota(
    ctx: Context, length: Any, *, start: Any, step: Any, dtype: torch.dtype, device: Any, requires_grad: bool
) -> Value:
    """iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""  # noqa: E501
    first, stride = ctx.dim(start), ctx.dim(step)
    limit = first + ctx.dim(length) * stride
    bounds = [ctx.size(d) for d in (first, limit, stride)]
    return ctx.cast(ctx.emit("Range", *bounds, dtype=torch.int64, shape=ctx.out_shape), dtype)


@converts(
    aten.linspace.default,
    samples=[Sample(0, 1, 5), Sample(-2.0, 3.0, 4), Sample(0.5, 10.7, 5, dtype=torch.int64)],
)
def linspace(
    ctx: Context, start: Number, end: Number, steps: int, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Value:  # fmt: skip
    """linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    dtype = ctx.out_dtype if ctx.out_dtype.is_floating_point else torch.float64
    bounds = [ctx.cast(ctx.converted(n, ctx.out_dtype), dtype) for n in (start, end)]
    return ctx.cast(ctx.emit("LinSpace", *bounds, ctx.size(steps), shape=ctx.out_shape), ctx.out_dtype)


def _eye(ctx: Context, rows: Any, columns: Any) -> Value:
    if not isinstance(rows, int) or not isinstance(columns, int):
        ctx.refuse(
            "an identity matrix of a size that is not known has no operator",
            "mark the dim static (dynamic=False)",
        )
    if columns == 0:  # means as many as rows
        return ctx.emit(
            "Fill", ctx.shape((rows, 0)), ctx.const(0, ctx.out_dtype), dtype=ctx.out_dtype, shape=(rows, 0)
        )
    attrs = {"num_rows": rows, "num_columns": columns, "dtype": ctx.out_dtype}
    return ctx.emit("Eye", dtype=ctx.out_dtype, attrs=attrs)


@converts(aten.eye.default, samples=[Sample(3)])
def eye(
    ctx: Context, n: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Value:
    """eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _eye(ctx, n, n)


@converts(aten.eye.m, samples=[Sample(3, 4), Sample(3, 0), Sample(0, 3)])
def eye_m(
    ctx: Context, n: Any, m: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Value:  # fmt: skip
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _eye(ctx, n, m)


@converts(aten._local_scalar_dense.default)
def local_scalar_dense(ctx: Context, self: Value) -> Value:
    """_local_scalar_dense(Tensor self) -> Scalar"""
    return ctx.reshape(self, ())


@converts("aten.sym_constrain_range_for_size.default", "aten.sym_constrain_range.default")
def sym_constrain_range(ctx: Context, size: Any, *, min: Any = None, max: Any = None) -> None:
    """sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()"""
