"""Distances between points, and images cut into columns."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, f32
from air_geir.converters.reductions import norm
from air_geir.ir import Format

aten = torch.ops.aten


@converts(
    aten._cdist_forward.default,
    samples=[Sample(f32(2, 3, 4), f32(2, 5, 4), 2.0, None), Sample(f32(3, 4), f32(5, 4), 1.0, None)],
)
def cdist_forward(ctx: Context, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    """_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor"""
    *batch, rows, width = x1.dims
    first = ctx.emit("Unsqueeze", x1, axes=[x1.rank - 1], shape=(*batch, rows, 1, width))
    second = ctx.emit("Unsqueeze", x2, axes=[x2.rank - 2], shape=(*x2.dims[:-2], 1, *x2.dims[-2:]))
    difference = ctx.emit("Sub", first, second)
    return norm(ctx, difference, float(p), [difference.rank - 1])


_PDIST = {"_pdist_forward.default": ("Pdist(self) {p}", [Sample(f32(5, 4)), Sample(f32(4, 3), 1.0)])}
register_direct(_PDIST, "distance")


@converts(
    aten.col2im.default,
    samples=[
        Sample(f32(2, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
        Sample(f32(12, 4), [5, 5], [2, 2], [1, 1], [0, 0], [3, 3]),
    ],
)
def col2im(
    ctx: Context, self: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    """col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""  # noqa: E501
    single = self.rank == 2
    count, channels, places = (1, *self.dims) if single else self.dims
    elements = kernel_size[0] * kernel_size[1]
    columns = ctx.reshape(self, (count, channels // elements, elements, places))
    images = ctx.emit(
        "Col2im", columns, ctx.cast(ctx.shape(list(output_size)), torch.int32), kernel_size=list(kernel_size),
        dilation=list(dilation), padding=list(padding), stride=list(stride),
    )  # fmt: skip
    ctx.layout(images, Format.NCHW)
    return ctx.emit("Squeeze", images, axis=[0]) if single else images
