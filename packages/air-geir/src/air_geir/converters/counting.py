"""Results as long as the data says: elements that repeat, elements that are distinct."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample
from air_geir.lowering import Context, Value

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
    size = repeats.dims[0]
    places = ctx.emit(
        "Range", ctx.const(0, torch.int64), ctx.size(size), ctx.const(1, torch.int64), shape=(size,)
    )
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
