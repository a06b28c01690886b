"""Gives a dense tensor the strides that it has in eager, which the graph engine cannot do."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def with_axes(dense: Tensor, order: Sequence[int]) -> Tensor:
    """The same memory with its axes in another order; no view, because autograd forbids writes to views of a result."""
    return dense.permute(tuple(order)).data


def lay_out(dense: Tensor, stride: Sequence[int], offset: int = 0) -> Tensor:
    """The same values with these strides, in memory of their own; the tensor itself when it lies so already.

    An axis of stride 0 holds its elements once. Strides of axes with one element do not matter.
    """
    size = dense.shape
    if not offset and all(n == 1 or a == b for n, a, b in zip(size, dense.stride(), stride, strict=True)):
        return dense
    if 0 in size:
        return dense.new_empty_strided(size, stride)
    extent = offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    laid = dense.new_empty(extent).as_strided(size, stride, offset)
    target = laid
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        if step == 0 and n > 1:
            target, dense = target.narrow(axis, 0, 1), dense.narrow(axis, 0, 1)
    target.copy_(dense)
    return laid.data
