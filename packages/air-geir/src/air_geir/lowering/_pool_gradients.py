"""Adaptive pools, and gradients of pools and of repeated borders, that torch keeps as one operator: axis by axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._decomp import decomposition_table


def _of_the_largest(grad: Tensor, self: Tensor, indices: Tensor, axes: int) -> Tensor:
    """Each gradient goes to the place that its window took; places count within an image, or a volume."""
    image = self.new_zeros(self.shape).flatten(-axes)
    places, values = indices.flatten(-axes), grad.flatten(-axes)
    return image.scatter_add(-1, places, values).reshape(self.shape)


def _adaptive_max_pool(axes: int) -> Callable[..., Tensor]:
    """adaptive_max_pool2d_backward, adaptive_max_pool3d_backward"""
    return lambda grad_output, self, indices: _of_the_largest(grad_output, self, indices, axes)


Window = Callable[[Any], tuple[Any, Any, Any]]
"""Where a window starts and ends, and by how much its elements are divided, by its number or by all numbers."""


def _in_turn(value: Tensor, axes: int, matrix: Callable[[int, torch.dtype], Tensor]) -> Tensor:
    """A product with a matrix along each of the last axes."""
    wide = value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    for at in range(axes):
        axis = wide.dim() - axes + at
        wide = (wide.movedim(axis, -1) @ matrix(at, wide.dtype)).movedim(-1, axis)
    return wide.to(value.dtype)


def _shares(window: Window, count: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A row for each window: the share of each of its elements along the axis, zero elsewhere."""
    if type(count) is int and type(size) is int:
        rows = [
            [1 / by if start <= i < end else 0.0 for i in range(size)]
            for start, end, by in map(window, range(count))
        ]
        return torch.tensor(rows, dtype=dtype, device=device).reshape(count, size)
    starts, ends, by = (part.unsqueeze(1) for part in window(torch.arange(count, device=device)))
    places = torch.arange(size, device=device)
    return torch.where((places >= starts) & (places < ends), 1 / by.to(dtype), 0.0)


def _adaptive(size: int, count: int) -> Window:
    def window(number: Any) -> tuple[Any, Any, Any]:
        start, end = number * size // count, ((number + 1) * size + (count - 1)) // count
        return start, end, end - start

    return window


def _adaptive_avg_pool_backward(axes: int) -> Callable[..., Tensor]:
    """_adaptive_avg_pool2d_backward, _adaptive_avg_pool3d_backward"""

    def spread(grad_output: Tensor, self: Tensor) -> Tensor:
        sizes, counts = self.shape[-axes:], grad_output.shape[-axes:]

        def matrix(at: int, dtype: torch.dtype) -> Tensor:
            return _shares(_adaptive(sizes[at], counts[at]), counts[at], sizes[at], dtype, self.device)

        return _in_turn(grad_output, axes, matrix)

    return spread


def _adaptive_avg_pool(axes: int) -> Callable[..., Tensor]:
    """_adaptive_avg_pool2d, _adaptive_avg_pool3d: of sizes that vary; others have converters"""

    def averaged(self: Tensor, output_size: Sequence[int]) -> Tensor:
        sizes = self.shape[-axes:]

        def matrix(at: int, dtype: torch.dtype) -> Tensor:
            window = _adaptive(sizes[at], output_size[at])
            return _shares(window, output_size[at], sizes[at], dtype, self.device).t()

        return _in_turn(self, axes, matrix)

    return averaged


_MAXIMA = {2: torch.ops.aten.adaptive_max_pool2d.default, 3: torch.ops.aten.adaptive_max_pool3d.default}


def _windows(x: Tensor, axis: int, count: int) -> tuple[Tensor, Any]:
    """The axis as one of windows and one of their elements, and the place of each; short windows repeat their last."""
    size = x.shape[axis]
    bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    longest = max(end - start for start, end in bounds)
    places = [[min(start + i, end - 1) for i in range(longest)] for start, end in bounds]
    numbers = torch.tensor(places, device=x.device)
    if size % count:
        x = x.index_select(axis, numbers.flatten())
    return x.unflatten(axis, (count, longest)), numbers


def _adaptive_max_pool_of(axes: int) -> Callable[..., Any]:
    """adaptive_max_pool2d, adaptive_max_pool3d: of planes and volumes of fixed sizes"""

    def maxima(self: Tensor, output_size: Sequence[int]) -> Any:
        even = decomposition_table.get(_MAXIMA[axes])
        found = NotImplemented if even is None else even(self, output_size)
        sizes, counts = self.shape[-axes:], list(output_size)
        if found is not NotImplemented:
            return found  # windows of one size
        if not all(type(size) is int for size in (*sizes, *counts)) or 0 in (*sizes, *counts):
            return NotImplemented
        outer = self.dim() - axes
        values, place = self, torch.zeros([], dtype=torch.int64, device=self.device)
        for at, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            values, numbers = _windows(values, outer + 2 * at, count)
            place = place.unsqueeze(-1).unsqueeze(-1) * size + numbers
        order = [
            *range(outer),
            *(outer + 2 * i for i in range(axes)),
            *(outer + 2 * i + 1 for i in range(axes)),
        ]
        flat = values.permute(order).flatten(outer + axes)
        places = place.permute([n - outer for n in order[outer:]]).flatten(axes)
        largest = flat.amax(-1)
        first = torch.where(flat == largest.unsqueeze(-1), places, math.prod(sizes)).amin(-1)
        last = torch.where(flat.isnan(), places, -1).amax(-1)  # of several NaN, as in eager
        return largest, torch.where(last < 0, first, last)

    return maxima


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
    _aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool(2),
    _aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool(3),
    _aten._adaptive_avg_pool2d.default: _adaptive_avg_pool(2),
    _aten._adaptive_avg_pool3d.default: _adaptive_avg_pool(3),
    _aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool_backward(2),
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool_backward(3),
    _aten.replication_pad3d_backward.default: _replication_pad3d,
}
UNEVEN_POOLS: Final[Mapping[object, Callable[..., Any]]] = {
    op: _adaptive_max_pool_of(axes) for axes, op in _MAXIMA.items()
}
"""Of which torch's tables have only those with windows of one size."""
