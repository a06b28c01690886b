"""Gradients of pools and of repeated borders that torch keeps as one operator, written axis by axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor


def _of_the_largest(grad: Tensor, self: Tensor, indices: Tensor, axes: int) -> Tensor:
    """Each gradient goes to the place that its window took; places count within an image, or a volume."""
    image = self.new_zeros(self.shape).flatten(-axes)
    places, values = indices.flatten(-axes), grad.flatten(-axes)
    return image.scatter_add(-1, places, values).reshape(self.shape)


def _max_pool3d(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    indices: Tensor,
) -> Tensor:  # fmt: skip
    """max_pool3d_with_indices_backward"""
    return _of_the_largest(grad_output, self, indices, 3)


def _adaptive_max_pool(axes: int) -> Callable[..., Tensor]:
    """adaptive_max_pool2d_backward, adaptive_max_pool3d_backward"""
    return lambda grad_output, self, indices: _of_the_largest(grad_output, self, indices, axes)


def _spread(grad: Tensor, windows: Sequence[Sequence[tuple[int, int, int]]], sizes: Sequence[int]) -> Tensor:
    """Spreads a gradient over the windows of its last axes: one product with a matrix for each axis.

    A window is where it starts and ends, and by how much its elements are divided along that axis.
    """
    count = len(windows)
    wide = grad.float() if grad.dtype in (torch.float16, torch.bfloat16) else grad
    for at, (along, size) in enumerate(zip(windows, sizes, strict=True)):
        axis = wide.dim() - count + at
        rows = [[1 / by if start <= i < end else 0.0 for i in range(size)] for start, end, by in along]
        shares = torch.tensor(rows, dtype=wide.dtype, device=wide.device)
        wide = (wide.movedim(axis, -1) @ shares).movedim(-1, axis)
    return wide.to(grad.dtype)


def _adaptive_avg_pool3d(grad_output: Tensor, self: Tensor) -> Any:
    """_adaptive_avg_pool3d_backward"""
    sizes, counts = self.shape[-3:], grad_output.shape[-3:]
    if not all(type(size) is int for size in (*sizes, *counts)):
        return NotImplemented
    return _spread(grad_output, [_adaptive(size, n) for size, n in zip(sizes, counts, strict=True)], sizes)


def _adaptive(size: int, count: int) -> list[tuple[int, int, int]]:
    bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    return [(start, end, end - start) for start, end in bounds]


def _avg_pool3d(
    grad_output: Tensor, self: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    """avg_pool3d_backward"""
    sizes, counts = self.shape[-3:], grad_output.shape[-3:]
    if not all(type(size) is int for size in (*sizes, *counts)):
        return NotImplemented
    kernels, steps, pads = (_of_three(given) for given in (kernel_size, stride or kernel_size, padding))
    windows = [
        _windows(*axis, count_include_pad, divisor_override is not None)
        for axis in zip(sizes, counts, kernels, steps, pads, strict=True)
    ]
    spread = _spread(grad_output, windows, sizes)
    return spread / divisor_override if divisor_override is not None else spread


def _of_three(given: Sequence[int]) -> Sequence[int]:
    return list(given) * 3 if len(given) == 1 else given


def _windows(
    size: int, count: int, kernel: int, step: int, pad: int, with_padding: bool, undivided: bool
) -> list[tuple[int, int, int]]:
    found = []
    for i in range(count):
        first = i * step - pad
        last = min(first + kernel, size + pad)
        start, end = max(first, 0), min(last, size)
        by = last - first if with_padding else end - start
        found.append((start, end, 1 if undivided else by))
    return found


def _replication_pad3d(grad_output: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
    """replication_pad3d_backward: the border and what was repeated of it come together, one axis after another."""
    grad = grad_output
    for at in range(3):
        axis, size = self.dim() - 1 - at, self.shape[self.dim() - 1 - at]
        places = torch.arange(grad.shape[axis], device=grad.device) - padding[2 * at]
        target = grad.new_zeros([*grad.shape[:axis], size, *grad.shape[axis + 1 :]])
        grad = target.index_add(axis, places.clamp(0, size - 1), grad)
    return grad


_aten = torch.ops.aten
POOL_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    _aten.max_pool3d_with_indices_backward.default: _max_pool3d,
    _aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool(2),
    _aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool(3),
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool3d,
    _aten.avg_pool3d_backward.default: _avg_pool3d,
    _aten.replication_pad3d_backward.default: _replication_pad3d,
}
