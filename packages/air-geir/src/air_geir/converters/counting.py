"""Lengths that the data says: elements that repeat, elements that are distinct, rows of unequal length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32

aten = torch.ops.aten

_REPEATING = torch.tensor([[3, 1, 1, 2], [2, 2, 3, 0]])


@converts(
    aten.repeat_interleave.Tensor,
    samples=[
        Sample(torch.tensor([2, 0, 3, 1])),
        Sample(torch.tensor([1, 2], dtype=torch.int32), output_size=3),
    ],
)
def repeat_interleave_tensor(ctx: Context, repeats: Value, *, output_size: Any = None) -> Value:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    places = ctx.numbers(repeats.dims[0])
    repeated = ctx.emit("RepeatInterleave", places, repeats, axis=0, dtype=torch.int64)
    return ctx.cast(repeated, ctx.out_dtype)


def _asked_for(ctx: Context, value: Value, asked: bool) -> Value:
    """What nobody asked for is empty."""
    return value if asked else ctx.fill((0,), 0, torch.int64)


@converts(
    aten._unique2.default,
    samples=[
        Sample(_REPEATING),
        Sample(_REPEATING, True, True, True),
        Sample(_REPEATING.float(), True, False, True),
    ],
)
def unique2(
    ctx: Context, self: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    values, inverse, counts = ctx.emit_many(
        "UniqueWithCountsAndSorting", self, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts,
        dtype=[self.dtype, torch.int64, torch.int64],
    )  # fmt: skip
    return values, _asked_for(ctx, inverse, return_inverse), _asked_for(ctx, counts, return_counts)


@converts(
    aten.unique_consecutive.default,
    samples=[Sample(_REPEATING), Sample(_REPEATING, True, True), Sample(_REPEATING, True, True, 1)],
)
def unique_consecutive(
    ctx: Context,
    self: Value,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[Value, Value, Value]:
    """unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    axis = {} if dim is None else {"axis": self.axis(dim)}
    values, inverse, counts = ctx.emit_many(
        "UniqueConsecutive", self, return_idx=return_inverse, return_counts=return_counts,
        dtype=[self.dtype, torch.int64, torch.int64], attrs=axis,
    )  # fmt: skip
    return values, _asked_for(ctx, inverse, return_inverse), _asked_for(ctx, counts, return_counts)


_OFFSETS = torch.tensor([0, 2, 2, 5])


def _single(ctx: Context, offsets: Sequence[Value]) -> tuple[Value, Value]:
    """Where each row begins and ends."""
    if len(offsets) != 1:
        ctx.refuse("rows of more than one unequal dimension have no operator", "pad all but one of them")
    count = offsets[0].dims[0] - 1
    ends = ctx.cast(offsets[0], torch.int64)
    begins, ends = (
        ctx.emit(
            "GatherV2",
            ends,
            ctx.emit("Add", ctx.numbers(count), ctx.const(k, torch.int64)),
            [0],
            shape=(count,),
        )
        for k in (0, 1)
    )
    return begins, ends


@converts(
    aten._jagged_to_padded_dense_forward.default,
    samples=[Sample(f32(5, 3), [_OFFSETS], [4], 0.5), Sample(f32(5, 2, 2), [_OFFSETS], [2])],
)
def jagged_to_padded(
    ctx: Context,
    values: Value,
    offsets: Sequence[Value],
    max_lengths: Sequence[Size],
    padding_value: float = 0.0,
) -> Value:
    """_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) -> Tensor"""  # noqa: E501
    begins, ends = _single(ctx, offsets)
    rows, longest = begins.dims[0], ctx.dim(max_lengths[0])
    places = ctx.emit("Add", ctx.reshape(begins, (rows, 1)), ctx.numbers(longest), shape=(rows, longest))
    there = ctx.emit("Less", places, ctx.reshape(ends, (rows, 1)), shape=(rows, longest))
    safe = ctx.emit("SelectV2", there, places, ctx.const(0, torch.int64), shape=(rows, longest))
    taken = ctx.emit("GatherV2", values, safe, [0], shape=(rows, longest, *values.dims[1:]))
    mask = ctx.reshape(there, (rows, longest, *[1] * (values.rank - 1)))
    return ctx.emit("SelectV2", mask, taken, ctx.number(padding_value, values.dtype), shape=taken.shape)


@converts(aten._padded_dense_to_jagged_forward.default, samples=[Sample(f32(3, 4, 2), [_OFFSETS], 5)])
def padded_to_jagged(
    ctx: Context,
    dense: Value,
    offsets: Sequence[Value],
    total_L: Size | None = None,  # noqa: N803
) -> Value:
    """_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor"""
    begins, ends = _single(ctx, offsets)
    total = ctx.out_shape[0]
    places = ctx.numbers(total)
    row = ctx.emit(
        "SearchSorted",
        ends,
        places,
        right=True,
        dtype=torch.int64,
        shape=(total,),
        attrs={"dtype": torch.int64},
    )
    start = ctx.emit("GatherV2", begins, row, [0], shape=(total,))
    longest = ctx.size(dense.dims[1])
    at = ctx.emit("Add", ctx.emit("Mul", row, longest), ctx.emit("Sub", places, start))
    flat = ctx.reshape(dense, (dense.dims[0] * dense.dims[1], *dense.dims[2:]))
    return ctx.emit("GatherV2", flat, at, [0])
