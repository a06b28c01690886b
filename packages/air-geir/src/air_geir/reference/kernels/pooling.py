"""Pooling, resizing and sampling of images."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


def _pairs(op: Operator, pads: list[int]) -> list[int]:
    before, after = pads[0::2], pads[1::2]
    if before != after:
        raise op.refuse("padding must be equal on both sides")
    return before


@kernel("AvgPoolV2")
def avg_pool_v2(op: Operator) -> Run:
    """Mean of each window; `exclusive` leaves the padding out of the count."""
    size, stride, pads = op.ints("ksize")[2:], op.ints("strides")[2:], _pairs(op, op.ints("pads"))
    if op.attr("data_format") != "NCHW" or op.attr("padding_mode") != "CALCULATED":
        raise op.refuse("only NCHW with calculated padding is supported")
    ceil, exclusive = bool(op.attr("ceil_mode")), bool(op.attr("exclusive"))
    divisor = int(op.attr("divisor_override")) or None
    if op.attr("global_pooling"):
        return lambda x: x.mean((2, 3), keepdim=True)
    return lambda x: F.avg_pool2d(x, size, stride, pads, ceil, not exclusive, divisor)


@kernel("AvgPoolV2Grad", host=("orig_input_shape",))
def avg_pool_v2_grad(op: Operator) -> Run:
    """Every output's gradient shared out over its window."""
    size, stride, pads = op.ints("ksize")[2:], op.ints("strides")[2:], _pairs(op, op.ints("pads"))
    ceil, exclusive = bool(op.attr("ceil_mode")), bool(op.attr("exclusive"))
    divisor = int(op.attr("divisor_override")) or None
    backward = torch.ops.aten.avg_pool2d_backward.default

    def run(shape: tuple[int, ...], dy: Tensor) -> Tensor:
        return backward(dy, dy.new_empty(shape), size, stride, pads, ceil, not exclusive, divisor)  # type: ignore[no-any-return]  # an operator

    return run


@kernel("AdaptiveAvgPool2d")
def adaptive_avg_pool(op: Operator) -> Run:
    """Mean of windows chosen so that the output has a given size."""
    height, width = op.ints("output_size")
    return lambda x: F.adaptive_avg_pool2d(x, (height, width))


@kernel("AdaptiveAvgPool2dGrad")
def adaptive_avg_pool_grad(op: Operator) -> Run:
    """The gradient of AdaptiveAvgPool2d."""
    shape = op.ints("orig_input_shape")
    backward = torch.ops.aten._adaptive_avg_pool2d_backward.default
    return lambda input_grad: backward(input_grad, input_grad.new_empty(shape))


_WINDOW = ("ksize", "strides", "pads", "dilation")


def _window(op: Operator) -> tuple[list[int], ...]:
    """Size, step, padding and dilation of the window: a number for depth, height and width each, no more."""
    found = tuple(op.ints(name) for name in _WINDOW)
    for name, numbers in zip(_WINDOW, found, strict=True):
        if len(numbers) != 3:
            raise op.refuse(f"{name} needs three numbers, not {len(numbers)}")
    return found


@kernel("MaxPool3DWithArgmaxV2")
def max_pool_3d(op: Operator) -> Run:
    """Largest element of each window and its place in the volume."""
    window, ceil = _window(op), bool(op.attr("ceil_mode"))
    dtype = {3: torch.int32, 9: torch.int64}[int(op.attr("dtype"))]

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        y, places = torch.ops.aten.max_pool3d_with_indices.default(x, *window, ceil)
        return y, places.to(dtype)

    return run


@kernel("MaxPool3DGradWithArgmax")
def max_pool_3d_grad(op: Operator) -> Run:
    """Every output's gradient added where its maximum was."""
    _window(op)

    def run(x: Tensor, grad: Tensor, argmax: Tensor) -> Tensor:
        flat = torch.zeros_like(x).flatten(2)
        return flat.scatter_add_(2, argmax.long().flatten(2), grad.flatten(2)).reshape(x.shape)

    return run


@kernel("ResizeNearestNeighborV2", host=("size",))
def resize_nearest(op: Operator) -> Run:
    """Each output takes the nearest input: rounded down from its corner."""
    if op.attr("align_corners") or op.attr("half_pixel_centers"):
        raise op.refuse("align_corners and half_pixel_centers are not supported")
    return lambda x, size: torch.ops.aten.upsample_nearest2d.default(x, size)


@kernel("ResizeNearestNeighborV2Grad", host=("size",))
def resize_nearest_grad(op: Operator) -> Run:
    """Each input collects the gradients of the outputs that took it."""
    if op.attr("align_corners") or op.attr("half_pixel_centers"):
        raise op.refuse("align_corners and half_pixel_centers are not supported")
    backward = torch.ops.aten.upsample_nearest2d_backward.default
    return lambda grads, size: backward(grads, list(grads.shape[2:]), [*grads.shape[:2], *size])


@kernel("ResizeBilinearV2", host=("size",))
def resize_bilinear(op: Operator) -> Run:
    """Linear interpolation of the four neighbours."""
    corners, half = bool(op.attr("align_corners")), bool(op.attr("half_pixel_centers"))
    if corners == half:
        raise op.refuse("exactly one of align_corners and half_pixel_centers must be set")
    return lambda x, size: torch.ops.aten.upsample_bilinear2d.default(x, size, corners)


@kernel("GridSampler2D", "GridSampler3D")
def grid_sampler(op: Operator) -> Run:
    """Reads the image at points given in [-1, 1]."""
    mode, padding = op.attr("interpolation_mode"), op.attr("padding_mode")
    corners = bool(op.attr("align_corners"))
    return lambda x, grid: F.grid_sample(x, grid, mode, padding, corners)


@kernel("GridSampler2DGrad")
def grid_sampler_grad(op: Operator) -> Run:
    """Derivatives of GridSampler2D by the image and by the points."""
    mode = ("bilinear", "nearest").index(op.attr("interpolation_mode"))
    padding = ("zeros", "border", "reflection").index(op.attr("padding_mode"))
    corners = bool(op.attr("align_corners"))
    backward = torch.ops.aten.grid_sampler_2d_backward.default
    return lambda grad, x, grid: backward(grad, x, grid, mode, padding, corners, [True, True])
