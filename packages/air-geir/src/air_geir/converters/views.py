"""Shape and order of a tensor's elements. Views of torch become values of their own: Ascend IR has no aliasing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, f32, f64, i32, i64
from air_geir.ir import Dim, Expr, maximum

aten = torch.ops.aten


@converts(
    aten.view.default,
    aten._unsafe_view.default,
    samples=[Sample(f32(2, 6), [3, 4]), Sample(f32(2, 6), [-1]), Sample(f32(), [1])],
)
def view(ctx: Context, self: Value, size: Sequence[Size]) -> Value:
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return ctx.reshape(self, ctx.out_shape)


@converts(aten.reshape.default, samples=[Sample(f32(2, 6), [3, 4])])
def reshape(ctx: Context, self: Value, shape: Sequence[Size]) -> Value:
    """reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"""
    return ctx.reshape(self, ctx.out_shape)


@converts(aten.view.dtype, samples=[Sample(f32(3, 4), torch.int32)])
def view_dtype(ctx: Context, self: Value, dtype: torch.dtype) -> Value:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    if self.dtype.itemsize != dtype.itemsize:
        ctx.refuse("a view in a type of another width has no operator", "copy with .to() instead")
    return ctx.emit("Bitcast", self, dtype=dtype, type=dtype)


@converts(
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    samples=[Sample(f32(2, 3))],
)
def alias(ctx: Context, self: Value) -> Value:
    """alias(Tensor(a) self) -> Tensor(a)"""
    return self


@converts(aten.permute.default, samples=[Sample(f32(2, 3, 4), [2, 0, 1]), Sample(f32(2, 3), [-1, 0])])
def permute(ctx: Context, self: Value, dims: Sequence[int]) -> Value:
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return ctx.transpose(self, dims)


@converts(aten.transpose.int, samples=[Sample(f32(2, 3, 4), 0, -1)])
def transpose(ctx: Context, self: Value, dim0: int, dim1: int) -> Value:
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    order = list(range(self.rank))
    if order:
        first, second = self.axis(dim0), self.axis(dim1)
        order[first], order[second] = order[second], order[first]
    return ctx.transpose(self, order)


@converts(aten.t.default, samples=[Sample(f32(2, 3)), Sample(f32(3))])
def t(ctx: Context, self: Value) -> Value:
    """t(Tensor(a) self) -> Tensor(a)"""
    return ctx.transpose(self, list(range(self.rank))[::-1])


@converts(aten.unsqueeze.default, samples=[Sample(f32(2, 3), 1), Sample(f32(2, 3), -1)])
def unsqueeze(ctx: Context, self: Value, dim: int) -> Value:
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return ctx.emit("Unsqueeze", self, axes=[dim % (self.rank + 1)])


def _squeezed(ctx: Context, value: Value, axes: Sequence[int]) -> Value:
    """Without those of the axes whose size is one; torch has decided which those are."""
    gone = [a for a in axes if value.dims[a] == 1] if value.rank else []
    return ctx.emit("Squeeze", value, axis=gone) if gone else value


@converts(aten.squeeze.default, samples=[Sample(f32(1, 2, 1))])
def squeeze(ctx: Context, self: Value) -> Value:
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    return _squeezed(ctx, self, range(self.rank))


@converts(aten.squeeze.dim, samples=[Sample(f32(1, 2, 1), 0), Sample(f32(1, 2), 1)])
def squeeze_dim(ctx: Context, self: Value, dim: int) -> Value:
    """squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"""
    return _squeezed(ctx, self, [self.axis(dim)])


@converts(aten.squeeze.dims, samples=[Sample(f32(1, 2, 1), [0, 1, 2])])
def squeeze_dims(ctx: Context, self: Value, dim: Sequence[int]) -> Value:
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    return _squeezed(ctx, self, [self.axis(d) for d in dim])


@converts(aten.expand.default, samples=[Sample(f32(1, 3), [2, -1]), Sample(f32(3), [2, 3])])
def expand(ctx: Context, self: Value, size: Sequence[Size], *, implicit: bool = False) -> Value:
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return ctx.broadcast(self, ctx.out_shape)


@converts(aten.repeat.default, samples=[Sample(f32(2, 3), [2, 1, 3])])
def repeat(ctx: Context, self: Value, repeats: Sequence[Size]) -> Value:
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    return ctx.emit("Tile", self, ctx.shape(list(repeats))) if len(repeats) else ctx.emit("TensorMove", self)


@converts(
    aten.repeat_interleave.self_int,
    samples=[Sample(f32(2, 3), 2, 1), Sample(f32(2, 3), 2, -2), Sample(f32(2, 3), 3)],
)
def repeat_interleave(
    ctx: Context, self: Value, repeats: Size, dim: int | None = None, *, output_size: Size | None = None
) -> Value:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    sizes = list(self.dims) if dim is not None else [math.prod(self.dims)]
    at = (dim or 0) % max(len(sizes), 1) + 1
    apart = ctx.reshape(self, [*sizes[:at], 1, *sizes[at:]])
    repeated = ctx.broadcast(apart, [*sizes[:at], ctx.dim(repeats), *sizes[at:]])
    return ctx.reshape(repeated, ctx.out_shape)


def clipped(ctx: Context, bound: Any, size: Dim, default: Dim) -> Dim:
    """A slice bound as Python clips it, when that can be said without knowing the sizes."""
    if bound is None:
        return default
    dim = ctx.dim(bound)
    if isinstance(dim, int) and dim < 0:
        return maximum(size + dim, 0)
    if isinstance(dim, int) and isinstance(size, int):
        return min(dim, size)
    return dim


def slice_axis(ctx: Context, value: Value, axis: int, start: Any, end: Any, step: Size) -> Value:
    """Python's `value[..., start:end:step, ...]` on one axis."""
    size = value.dims[axis]
    first, last = clipped(ctx, start, size, 0), clipped(ctx, end, size, size)
    if first == 0 and last == size and step == 1:
        return value
    if isinstance(end, int) and end >= 2**63 - 1:
        last = end
        if first == 0 and step == 1:
            return value
    return ctx.emit("StridedSliceV2", value, ctx.shape([first]), ctx.shape([last]), [axis], ctx.shape([step]))


@converts(
    aten.slice.Tensor,
    samples=[
        Sample(f32(5, 4), 0, 1, 4),
        Sample(f32(5, 4), 1, -3, 9223372036854775807, 2),
        Sample(f32(5), 0, None, -2),
        Sample(f32(5), 0, 4, 2),
        Sample(f32(5), 0, -9, 3),
    ],
)
def slice_(
    ctx: Context, self: Value, dim: int = 0, start: Any = None, end: Any = None, step: Size = 1
) -> Value:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    if isinstance(end, int) and isinstance(start, int) and 0 <= end < start:
        end = start
    return slice_axis(ctx, self, self.axis(dim), start, end, step)


@converts(aten.select.int, samples=[Sample(f32(3, 4), 0, 1), Sample(f32(3, 4), -1, -2)])
def select(ctx: Context, self: Value, dim: int, index: Size) -> Value:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    axis = self.axis(dim)
    at = ctx.dim(index)
    if isinstance(at, int) and at < 0:
        at = self.dims[axis] + at
    negative = isinstance(at, Expr)
    return ctx.emit("GatherV2", self, ctx.size(at), [axis], negative_index_support=negative)


@converts(aten.narrow.default, samples=[Sample(f32(5, 3), 0, 1, 2)])
def narrow(ctx: Context, self: Value, dim: int, start: Size, length: Size) -> Value:
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    first = ctx.dim(start)
    return slice_axis(ctx, self, self.axis(dim), first, first + ctx.dim(length), 1)


def flat_diagonal(
    ctx: Context, self: Value, offset: int, dim1: int, dim2: int, length: Dim
) -> tuple[Value, list[int], Value]:
    """The matrices of two axes as rows of one length, the order of axes before that, and where the diagonal is."""
    first, second = self.axis(dim1), self.axis(dim2)
    order = [*(a for a in range(self.rank) if a not in (first, second)), first, second]
    moved = ctx.transpose(self, order)
    *outer, rows, columns = moved.dims
    begin = offset if offset >= 0 else columns * -offset
    places = ctx.emit(
        "Range", ctx.size(begin), ctx.size(begin + length * (columns + 1)), ctx.size(columns + 1),
        dtype=torch.int64, shape=(length,),
    )  # fmt: skip
    return ctx.reshape(moved, (*outer, rows * columns)), order, places


@converts(
    aten.diagonal.default, samples=[Sample(f32(3, 4)), Sample(f32(2, 3, 3), 1, 1, 2), Sample(f32(4, 3), -1)]
)
def diagonal(ctx: Context, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    flat, _, places = flat_diagonal(ctx, self, offset, dim1, dim2, ctx.out_shape[-1])
    return ctx.emit("GatherV2", flat, places, [self.rank - 2])


@converts(aten.flip.default, samples=[Sample(f32(2, 3), [0, -1])])
def flip(ctx: Context, self: Value, dims: Sequence[int]) -> Value:
    """flip(Tensor self, int[] dims) -> Tensor"""
    if not dims:
        return ctx.emit("TensorMove", self)
    return ctx.emit("ReverseV2", self, [self.axis(d) for d in dims])


def _rolled(ctx: Context, value: Value, axis: int, shift: int) -> Value:
    """Two slices that change places: the operator type for it goes along a first axis only, on most chips."""
    size = value.dims[axis]
    by = shift % size if size != 0 else 0
    if by == 0:
        return value
    parts = [slice_axis(ctx, value, axis, size - by, size, 1), slice_axis(ctx, value, axis, 0, size - by, 1)]
    return ctx.emit("ConcatV2", parts, ctx.const(axis, torch.int64), N=2, shape=value.shape)


@converts(
    aten.roll.default,
    samples=[
        Sample(f32(4, 3), [1, -1], [0, 1]),
        Sample(f32(4, 3), [2]),
        Sample(f32(4, 3), [4, 7], [-2, -1]),
        Sample(f32(), [1]),
        Sample(f32(0, 3), [1, 1], [0, 1]),
    ],
)
def roll(ctx: Context, self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    if not all(isinstance(s, int) for s in shifts):
        ctx.refuse(
            "rolling by a size that is not known has no operator",
            "index with (arange(n) - shift) % n instead",
        )
    if not dims:
        flat = ctx.reshape(self, (math.prod(self.dims),))
        return ctx.emit("TensorMove", ctx.reshape(_rolled(ctx, flat, 0, shifts[0]), self.dims))
    result = self
    for dim, shift in zip(dims, shifts, strict=True):
        result = _rolled(ctx, result, self.axis(dim), shift)
    return ctx.emit("TensorMove", self) if result is self else result


_TRIANGLES = {
    "tril.default": ("Tril(self) {diagonal}", [Sample(f32(3, 4)), Sample(f32(3, 4), 1)]),
    "triu.default": ("Triu(self) {diagonal}", [Sample(f32(3, 4)), Sample(i32(3, 4), -1)]),
}
register_direct(_TRIANGLES, "views")


@converts(
    aten._to_copy.default,
    samples=[Sample(f32(2, 3), dtype=torch.float16), Sample(i64(2), dtype=torch.float32), Sample(f32(2))],
)
def to_copy(
    ctx: Context, self: Value, *, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool | None = None, non_blocking: bool = False, memory_format: Any = None,
) -> Value:  # fmt: skip
    """_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"""  # noqa: E501
    if dtype is None or dtype == self.dtype:
        return ctx.emit("TensorMove", self)
    return _converted(ctx, self, dtype)


def _converted(ctx: Context, value: Value, dtype: torch.dtype) -> Value:
    if dtype == torch.bool:
        return ctx.emit("NotEqual", value, ctx.const(0, value.dtype), shape=value.shape)
    return ctx.cast(value, dtype)


@converts(
    "prims.convert_element_type.default",
    samples=[Sample(f64(3), torch.float32), Sample(f32(3), torch.float32)],
)
def convert_element_type(ctx: Context, a: Value, dtype: torch.dtype) -> Value:
    """convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return _converted(ctx, a, dtype) if a.dtype != dtype else ctx.emit("TensorMove", a)


@converts(aten.copy.default, samples=[Sample(f32(2, 3), i32(3))])
def copy(ctx: Context, self: Value, src: Value, non_blocking: bool = False) -> Value:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    value = ctx.broadcast(ctx.cast(src, self.dtype), self.dims)
    return ctx.emit("TensorMove", value) if value is src else value
