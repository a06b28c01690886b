"""Putting tensors together and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f16, f32

aten = torch.ops.aten


@converts(
    aten.cat.default,
    samples=[
        Sample([f32(2, 2), f32(2, 1)], 1),
        Sample([f32(2, 2), f16(1, 2)]),
        Sample([f32(0), f32(2, 2)], -1),
        Sample([f32(2, 2)], 1),
    ],
)
def cat(ctx: Context, tensors: Sequence[Value], dim: int = 0) -> Value:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    parts = [t for t in tensors if t.shape != (0,)] or list(tensors[:1])
    joined = ctx.promote(*parts, dtype=ctx.out_dtype)
    if len(joined) == 1:  # the engine joins two or more
        return ctx.emit("TensorMove", joined[0])
    return ctx.emit("ConcatV2", list(joined), ctx.const(parts[0].axis(dim), torch.int64), N=len(joined))


@converts(aten.stack.default, samples=[Sample([f32(2, 3), f32(2, 3)], 1), Sample([f32(2), f32(2)], -1)])
def stack(ctx: Context, tensors: Sequence[Value], dim: int = 0) -> Value:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = dim % (tensors[0].rank + 1)
    joined = ctx.promote(*tensors, dtype=ctx.out_dtype)
    return ctx.emit("Pack", list(joined), axis=axis, N=len(joined))


def _pieces(ctx: Context, value: Value, sizes: Sequence[Size], dim: int) -> list[Value]:
    count = len(sizes)
    results = ctx.emit_many(
        "SplitV", value, ctx.shape(list(sizes)), [value.axis(dim)], num_split=count, num_outputs=count
    )
    return list(results)


@converts(aten.split_with_sizes.default, samples=[Sample(f32(5, 2), [2, 3]), Sample(f32(2, 5), [1, 4], -1)])
def split_with_sizes(ctx: Context, self: Value, split_sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    """split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return _pieces(ctx, self, split_sizes, dim)


@converts(aten.split.Tensor, samples=[Sample(f32(5, 2), 2), Sample(f32(2, 6), 3, -1)])
def split(ctx: Context, self: Value, split_size: Size, dim: int = 0) -> list[Value]:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = self.axis(dim)
    return _pieces(ctx, self, [ctx.dim(m.shape[axis]) for m in ctx.meta], dim)


@converts(aten.unbind.int, samples=[Sample(f32(3, 2)), Sample(f32(3, 2), -1)])
def unbind(ctx: Context, self: Value, dim: int = 0) -> list[Value]:
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    count = len(ctx.meta)
    return list(ctx.emit_many("Unpack", self, num=count, axis=self.axis(dim), num_outputs=count))
