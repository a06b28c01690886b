"""Operators that address memory by strides: they ask for the memory behind a value, not for its dense form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32
from air_geir.converters.indexing import put, refuse_overlaps
from air_geir.ir import Dim, apply

aten = torch.ops.aten


@converts(
    aten.as_strided.default,
    aten.as_strided_copy.default,
    samples=[Sample(f32(4, 4), [2, 3], [4, 1], 1), Sample(f32(6), [3, 2], [1, 2])],
)
def as_strided(
    ctx: Context,
    self: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Value:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    return ctx.memory().strided(size, stride, storage_offset)


@converts(
    aten.as_strided_scatter.default,
    samples=[Sample(f32(4, 4), f32(2, 3), [2, 3], [4, 1], 1), Sample(f32(6), f32(3, 2), [3, 2], [2, 1])],
)
def as_strided_scatter(
    ctx: Context,
    self: Value,
    src: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Value:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""  # noqa: E501
    refuse_overlaps(ctx, size, stride)
    memory = ctx.memory()
    window = memory.window(size, stride, storage_offset)
    length = window.elements.dims[0]
    numbers = ctx.numbers(length)
    first = window.offset if storage_offset is None else ctx.dim(storage_offset)
    places = memory.pick(numbers, size, stride, apply("sub", first, window.start))
    count = (math.prod(places.dims),)
    values = ctx.reshape(ctx.broadcast(src, places.dims), count)
    written = put(ctx, window.elements, [ctx.reshape(places, count)], values, False)
    if memory.is_expanded:
        return ctx.reshape(written, self.dims)
    strides = memory.like.stride()
    return memory.pick(written, self.dims, strides, apply("sub", window.offset, window.start))


@converts(aten.unfold_copy.default, samples=[Sample(f32(6), 0, 3, 2), Sample(f32(3, 7), -1, 2, 3)])
@converts(
    aten.unfold.default,
    samples=[
        Sample(f32(6), 0, 3, 2),
        Sample(f32(3, 7), -1, 2, 3),
        Sample(f32(5, 3), 0, 2, 1),
        Sample(f32(), 0, 1, 1),
    ],
)
def unfold(ctx: Context, self: Value, dimension: int, size: int, step: int) -> Value:
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    return windows(ctx, self, dimension, size, step)


def windows(ctx: Context, value: Value, dimension: int, size: int, step: int) -> Value:
    """Every `step`-th stretch of an axis: strides over the dense value, whatever torch's strides are."""
    if not value.rank:
        return ctx.reshape(value, ctx.out_shape)
    axis = value.axis(dimension)
    strides: list[Dim] = []
    reach: Dim = 1
    for extent in reversed(value.dims):
        strides.insert(0, reach)
        reach = reach * extent
    over = [*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]]
    sizes = ctx.out_shape
    return ctx.emit("AsStrided", value, ctx.shape(sizes), ctx.shape(over), ctx.shape([0]), shape=sizes)
