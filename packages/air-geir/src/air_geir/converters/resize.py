"""Images in another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows
from air_geir.converters._sample import Sample, f32
from air_geir.ir import Format

aten = torch.ops.aten


def _follows_sizes(sizes: Sequence[Any], output_size: Sequence[Any], scales: Sequence[float | None]) -> bool:
    """True when the scale is the quotient of the sizes, which is what the operators compute with."""
    for size, wanted, scale in zip(sizes, output_size, scales, strict=True):
        if scale is None:
            continue
        if not isinstance(size, int) or not isinstance(wanted, int) or size * scale != wanted:
            return False
    return True


def _resized(ctx: Context, op_type: str, self: Value, output_size: Sequence[Any], **attrs: Any) -> Value:
    """What is added up in bfloat16 is added up in single precision: most chips have no kernel for it."""
    adds = op_type != "ResizeNearestNeighborV2"
    image = ctx.cast(self, torch.float32) if adds and self.dtype == torch.bfloat16 else self
    y = ctx.emit(op_type, image, ctx.cast(ctx.shape(list(output_size)), torch.int32), **attrs)
    ctx.layout(y, Format.NCHW)
    return ctx.cast(y, self.dtype)


@converts(
    aten.upsample_nearest2d.default,
    samples=[Sample(f32(1, 2, 3, 4), [6, 7]), Sample(f32(1, 2, 6, 4), [3, 4], 0.5, 1.0)],
)
def upsample_nearest2d(
    ctx: Context, self: Value, output_size: Sequence[Any], scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    if not _follows_sizes(self.dims[2:], output_size, (scales_h, scales_w)):
        ctx.decompose()
    return _resized(ctx, "ResizeNearestNeighborV2", self, output_size)


@converts(
    aten.upsample_bilinear2d.default,
    samples=[Sample(f32(1, 2, 3, 4), [6, 7], False), Sample(f32(1, 2, 3, 4), [5, 4], True)],
)
def upsample_bilinear2d(
    ctx: Context, self: Value, output_size: Sequence[Any], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    if not align_corners and not _follows_sizes(self.dims[2:], output_size, (scales_h, scales_w)):
        ctx.decompose()
    return _resized(
        ctx, "ResizeBilinearV2", self, output_size, align_corners=align_corners, half_pixel_centers=not align_corners,
        attrs={"dtype": torch.float32 if self.dtype == torch.bfloat16 else self.dtype},
    )  # fmt: skip


@converts(
    aten.upsample_nearest2d_backward.default,
    samples=[
        Sample(f32(1, 2, 6, 7), [6, 7], [1, 2, 3, 4]),
        Sample(f32(1, 2, 3, 4), [3, 4], [1, 2, 6, 4], 0.5, 1.0),
        Sample(f32(2, 3, 8, 8), [8, 8], [2, 3, 4, 4], 2.0, 2.0),
    ],
)
def upsample_nearest2d_backward(
    ctx: Context, grad_output: Value, output_size: Sequence[Any], input_size: Sequence[Any],
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    if not _follows_sizes(list(input_size)[2:], output_size, (scales_h, scales_w)):
        ctx.refuse("a scale that is not the quotient of the sizes has no operator", "resize to a size")
    return _resized(ctx, "ResizeNearestNeighborV2Grad", grad_output, list(input_size)[2:])


_INTERPOLATION = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _sampled(op_type: str) -> Body:
    def convert(
        ctx: Context, input: Value, grid: Value, mode: int, padding: int, align_corners: bool
    ) -> Value:
        attrs = {"interpolation_mode": _INTERPOLATION[mode], "padding_mode": _PADDING[padding]}
        return ctx.emit(op_type, input, grid, attrs={**attrs, "align_corners": align_corners})

    return convert


_SAMPLER_SAMPLES = {
    "grid_sampler_2d.default": [
        Sample(f32(1, 2, 4, 4), f32(1, 3, 3, 2, low=-1, high=1), 0, 0, False),
        Sample(f32(1, 2, 4, 4), f32(1, 3, 3, 2, low=-1, high=1), 1, 1, True),
    ],
    "grid_sampler_3d.default": [
        Sample(f32(1, 2, 3, 4, 4), f32(1, 2, 3, 3, 3, low=-1, high=1), 0, 0, False),
    ],
}
register_rows(
    {"grid_sampler_2d.default": "GridSampler2D", "grid_sampler_3d.default": "GridSampler3D"},
    _sampled,
    _SAMPLER_SAMPLES.__getitem__,
    "resize",
)


@converts(
    aten.grid_sampler_2d_backward.default,
    samples=[
        Sample(f32(1, 2, 3, 3), f32(1, 2, 4, 4), f32(1, 3, 3, 2, low=-1, high=1), 0, 0, False, [True, True]),
        Sample(f32(1, 2, 3, 3), f32(1, 2, 4, 4), f32(1, 3, 3, 2, low=-2, high=2), 1, 1, True, [True, True]),
        Sample(f32(1, 2, 3, 3), f32(1, 2, 4, 4), f32(1, 3, 3, 2, low=-2, high=2), 0, 2, False, [True, True]),
    ],
)
def grid_sampler_2d_backward(
    ctx: Context, grad_output: Value, input: Value, grid: Value, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Sequence[bool],
) -> tuple[Value, ...]:  # fmt: skip
    """grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"""  # noqa: E501
    if interpolation_mode == 2:
        ctx.decompose()  # the operator samples linearly, or the nearest
    return ctx.emit_many(
        "GridSampler2DGrad", grad_output, input, grid, interpolation_mode=_INTERPOLATION[interpolation_mode],
        padding_mode=_PADDING[padding_mode], align_corners=align_corners,
        dtype=[input.dtype, grid.dtype],
    )  # fmt: skip
