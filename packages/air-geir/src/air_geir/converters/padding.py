"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, f32, i64
from air_geir.converters.views import slice_axis

aten = torch.ops.aten


def _pairs(ctx: Context, value: Value, pad: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Padding before and after each axis, from torch's list, which starts at the last axis."""
    given = [(ctx.dim(pad[i]), ctx.dim(pad[i + 1])) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (value.rank - len(given)) + given[::-1]


@converts(
    aten.constant_pad_nd.default,
    samples=[
        Sample(f32(2, 3), [1, 2], 1.5),
        Sample(f32(3, 4), [-1, 2, 1, 0]),
        Sample(i64(3), [1, 1], 3),
        Sample(f32(2, 2), [-1, 0]),
    ],
)
def constant_pad_nd(ctx: Context, self: Value, pad: Sequence[Any], value: Number = 0) -> Value:
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    result, pairs = self, _pairs(ctx, self, pad)
    for axis, (before, after) in enumerate(pairs):
        cut_front = -before if isinstance(before, int) and before < 0 else 0
        cut_back = -after if isinstance(after, int) and after < 0 else 0
        if cut_front or cut_back:
            result = slice_axis(ctx, result, axis, cut_front, self.dims[axis] - cut_back, 1)
            left = self.dims[axis] - cut_front - cut_back
            cut = result.shape or self.dims  # in front of the axis, after earlier cuts
            result = Value(result.port, result.dtype, (*cut[:axis], left, *self.dims[axis + 1 :]))
    grown = [p if not isinstance(p, int) or p > 0 else 0 for pair in pairs for p in pair]
    if not any(grown):
        return result if result is not self else ctx.emit("TensorMove", self)
    return ctx.emit("PadV3", result, ctx.shape(grown), ctx.converted(value, self.dtype))


_BORDER = {f"reflection_pad{n}d.default": "reflect" for n in (1, 2, 3)} | {
    f"replication_pad{n}d.default": "edge" for n in (1, 2, 3)
}


def _border(mode: str) -> Body:
    def convert(ctx: Context, self: Value, padding: Sequence[Any]) -> Value:
        pairs = _pairs(ctx, self, padding)
        if any(isinstance(p, int) and p < 0 for pair in pairs for p in pair):
            ctx.decompose()
        return ctx.emit("PadV3", self, ctx.shape([p for pair in pairs for p in pair]), mode=mode)

    return convert


def _border_samples(overload: str) -> tuple[Sample, ...]:
    axes = int(overload.split("pad")[1][0])
    pad = [1, 2] * axes
    return (Sample(f32(2, 2, *[4] * axes), pad), Sample(f32(2, *[4] * axes), pad))


register_rows(_BORDER, _border, _border_samples, "padding")

_BORDER_BACK = {
    "reflection_pad2d_backward.default": "reflect",
    "replication_pad1d_backward.default": "edge",
    "reflection_pad1d_backward.default": "reflect",
    "replication_pad2d_backward.default": "edge",
}


def _border_back(mode: str) -> Body:
    def convert(ctx: Context, grad_output: Value, self: Value, padding: Sequence[Any]) -> Value:
        pairs = _pairs(ctx, self, padding)
        return ctx.emit("PadV3Grad", grad_output, ctx.shape([p for pair in pairs for p in pair]), mode=mode)

    return convert


def _back_samples(overload: str) -> tuple[Sample, ...]:
    axes = int(overload.split("pad")[1][0])
    return (
        Sample(f32(2, 2, *[7] * axes), f32(2, 2, *[4] * axes), [1, 2] * axes),
        Sample(f32(2, 2, *[4] * axes), f32(2, 2, *[4] * axes), [0, 0] * axes),
    )


register_rows(_BORDER_BACK, _border_back, _back_samples, "padding")
