"""Sorting and searching."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32, i32

aten = torch.ops.aten


def _axis_last(self: Value, dim: int) -> list[int]:
    """The order of axes that puts one last, where kernels order elements; the same order puts it back."""
    order = list(range(self.rank))
    order[self.axis(dim)], order[-1] = order[-1], order[self.axis(dim)]
    return order


def _sorted(ctx: Context, self: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    """Stable always: torch promises no order for equal elements, a stable one is one of those it may give."""
    if not self.rank:
        return ctx.emit("TensorMove", self), ctx.fill((), 0, torch.int64)
    order = _axis_last(self, dim)
    rows = ctx.transpose(self, order)
    values, places = ctx.emit_many(
        "Sort", rows, axis=self.rank - 1, descending=descending, stable=True,
        dtype=[self.dtype, torch.int32], shape=[rows.shape, rows.shape],
    )  # fmt: skip
    return ctx.transpose(values, order), ctx.cast(ctx.transpose(places, order), torch.int64)


@converts(aten.sort.default, samples=[Sample(f32(3, 4)), Sample(f32(3, 4), 0, True)])
def sort(ctx: Context, self: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    return _sorted(ctx, self, dim, descending)


@converts(aten.sort.stable, samples=[Sample(i32(3, 4), stable=True, dim=1)])
def sort_stable(
    ctx: Context, self: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""  # noqa: E501
    return _sorted(ctx, self, dim, descending)


@converts(aten.argsort.stable, samples=[Sample(f32(3, 4), stable=True)])
def argsort_stable(
    ctx: Context, self: Value, *, stable: bool, dim: int = -1, descending: bool = False
) -> Value:
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return _sorted(ctx, self, dim, descending)[1]


@converts(aten.topk.default, samples=[Sample(f32(3, 5), 2), Sample(f32(5, 3), 2, 0, False)])
def topk(
    ctx: Context, self: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"""  # noqa: E501
    if not self.rank:
        return ctx.emit("TensorMove", self), ctx.fill((), 0, torch.int64)
    order = _axis_last(self, dim)
    rows = ctx.transpose(self, order)
    found = (*rows.dims[:-1], ctx.dim(k))
    values, places = ctx.emit_many(
        "TopKV2", rows, ctx.cast(ctx.size(k), torch.int32), sorted=sorted, dim=self.rank - 1, largest=largest,
        dtype=[self.dtype, torch.int32], shape=[found, found],
    )  # fmt: skip
    return ctx.transpose(values, order), ctx.cast(ctx.transpose(places, order), torch.int64)


@converts(
    aten.searchsorted.Tensor,
    samples=[
        Sample(torch.tensor([1.0, 2, 3, 4]), f32(3, 2)),
        Sample(torch.tensor([1.0, 2, 2]), f32(3), right=True),
    ],
)
def searchsorted(
    ctx: Context, sorted_sequence: Value, self: Value, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Value | None = None,
) -> Value:  # fmt: skip
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"""  # noqa: E501
    sequence, values = ctx.promote(sorted_sequence, self)
    attrs: dict[str, Any] = {"dtype": ctx.out_dtype, "right": right or side == "right"}
    return ctx.emit("SearchSorted", sequence, values, sorter, dtype=ctx.out_dtype, attrs=attrs)


@converts(aten.bucketize.Tensor, samples=[Sample(f32(3, 2), torch.tensor([-1.0, 0, 1]))])
def bucketize(
    ctx: Context, self: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    sequence, values = ctx.promote(boundaries, self)
    attrs: dict[str, Any] = {"dtype": ctx.out_dtype, "right": right}
    return ctx.emit("SearchSorted", sequence, values, None, dtype=ctx.out_dtype, attrs=attrs)
