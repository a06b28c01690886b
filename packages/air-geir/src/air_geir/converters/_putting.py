"""Assignment by index in the one form that every kernel takes: indices of the first axes, all of one shape.

    x[:, :, pos] = v         ->     x[arange(B)[:, None, None], arange(H)[:, None], pos] = v

An axis before the last indexed one that has no index gets the numbers of its places: nothing is transposed, and what is
written is written in place. Values have as many elements as are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from air_geir.building import Context, Size, Value, broadcast
from air_geir.types import DataType

Part: TypeAlias = "Size | Value"
"""A size, or a vector of one element that holds a size that only the run tells: how often a mask is true."""


def put_at(
    ctx: Context,
    target: Value,
    flags: Sequence[int],
    places: Sequence[Value],
    values: Value,
    accumulate: bool,
) -> Value:
    """Writes into the target; `flags` says which axes have an index, `places` are those indices."""
    used = len(flags) - list(reversed(flags)).index(1)
    free = [axis for axis in range(used) if not flags[axis]]
    common = _common(ctx, places)
    lead: list[Part] = [target.dims[axis] for axis in free]
    is_in_front = free == list(range(len(free)))
    found = ([*lead, *common] if is_in_front else [*common, *lead]) or [1]
    start = 0 if is_in_front else len(common)
    numbers = iter(_numbers(ctx, target, free, len(found), start))
    given = iter(places if is_in_front else [_with_ones(ctx, place, len(lead)) for place in places])
    indices = [_filled(ctx, next(given if flags[axis] else numbers), found) for axis in range(used)]
    ones = ctx.const([1] * used, torch.int64)
    wanted = _filled(ctx, ctx.cast(values, target.dtype), [*found, *target.dims[used:]])
    return ctx.emit(
        "IndexPutV2", target, wanted, ones, ones, indices, accumulate=accumulate, shape=target.shape
    )


def _common(ctx: Context, places: Sequence[Value]) -> list[Part]:
    """The shape of all indices together; those of a mask have one axis, whose size nobody knows yet."""
    known = broadcast([place.shape for place in places])
    if known is not None:
        return list(known)
    if any(place.shape is not None and place.rank > 1 for place in places):
        ctx.refuse("a mask beside an index of several axes has no operator here", "use mask.nonzero()")
    of_mask = next(place for place in places if place.shape is None)
    return [ctx.emit("Shape", of_mask, dtype=torch.int64, shape=(1,), attrs={"dtype": DataType.INT64})]


def _numbers(ctx: Context, target: Value, free: Sequence[int], rank: int, start: int) -> list[Value]:
    """The numbers of the places on each axis that has no index, each along an axis of its own."""
    return [
        ctx.reshape(ctx.numbers(size), [size if at == start + k else 1 for at in range(rank)])
        for k, size in enumerate(target.dims[axis] for axis in free)
    ]


def _with_ones(ctx: Context, place: Value, count: int) -> Value:
    if place.shape is None:
        return ctx.emit("Unsqueeze", place, axes=list(range(1, 1 + count)), shape=None)
    return ctx.reshape(place, [*place.dims, *[1] * count])


def _filled(ctx: Context, value: Value, parts: Sequence[Part]) -> Value:
    """Repeated to that shape; as it is where it has it."""
    sizes = [part for part in parts if not isinstance(part, Value)]
    if len(sizes) == len(parts):
        return ctx.broadcast(value, sizes)
    if value.shape is None and len(parts) == 1:
        return value
    if value.shape is not None and _has_shape(value, parts):
        return value
    vectors = [_vector(ctx, part) for part in parts]
    zero = ctx.const(0, torch.int64)
    shape = ctx.emit("ConcatV2", vectors, zero, N=len(vectors)) if len(vectors) > 1 else vectors[0]
    return ctx.emit("BroadcastTo", value, shape, shape=None)


def _has_shape(value: Value, parts: Sequence[Part]) -> bool:
    """A size that only the run tells is that of the values, unless they have one element there."""
    pairs = list(zip(value.dims, parts, strict=False))
    return value.rank == len(parts) and all(
        size != 1 if isinstance(part, Value) else size == part for size, part in pairs
    )


def _vector(ctx: Context, part: Part) -> Value:
    return part if isinstance(part, Value) else ctx.shape([part])
