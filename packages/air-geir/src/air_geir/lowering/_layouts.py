"""How the elements of a strided value lie in its memory: in their order, in another order of the axes, or otherwise.

Nothing here adds a guard: what cannot be proven from the symbols counts as not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

Extent = int | torch.SymInt


def known(condition: Any) -> bool:
    """Whether the condition holds for every value of its symbols."""
    return bool(statically_known_true(condition))


def axes_order(value: torch.Tensor) -> tuple[int, ...] | None:
    """The axes from the slowest to the fastest, when the value fills its memory from the start without gaps.

    None when it does not, or when that is not known. Axes of one element may stand anywhere: they stay where they are
    as far as possible, so that an ordinary dense value gives 0, 1, 2 and so on.
    """
    if not known(value.storage_offset() == 0):
        return None
    sizes: Sequence[Extent] = value.shape
    strides: Sequence[Extent] = value.stride()
    rank = len(sizes)
    if any(known(size == 0) for size in sizes):
        return tuple(range(rank))
    for order in (tuple(range(rank)), _by_stride(sizes, strides)):
        if _is_dense([sizes[axis] for axis in order], [strides[axis] for axis in order]):
            return order
    return None


def _by_stride(sizes: Sequence[Extent], strides: Sequence[Extent]) -> tuple[int, ...]:
    """The axes by falling stride, those of one element at the places they have now."""
    moving = [axis for axis, size in enumerate(sizes) if not known(size == 1)]
    ordered = iter(sorted(moving, key=lambda axis: (-example(strides[axis]), -example(sizes[axis]), axis)))
    return tuple(next(ordered) if axis in moving else axis for axis in range(len(sizes)))


def _is_dense(sizes: Sequence[Extent], strides: Sequence[Extent]) -> bool:
    """Whether each stride is the number of elements of the axes behind it."""
    reach: Extent = 1
    guarded: Extent = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if not (known(size == 1) or known(stride == reach) or known(stride == guarded)):
            return False
        reach = reach * size
        guarded = guarded * torch.sym_max(size, 1)  # as torch spells it where a size may be zero
    return True


def example(extent: Extent) -> int:
    """A value that the extent may have: the one of the tracing, if there was one."""
    if isinstance(extent, int):
        return extent
    if extent.node.has_hint():
        return int(extent.node.hint)
    symbols = sorted(extent.node.expr.free_symbols, key=str)
    return int(extent.node.expr.subs({symbol: 5 + 2 * at for at, symbol in enumerate(symbols)}))


def is_dense(value: torch.Tensor) -> bool:
    """Whether the value surely lies in its own order, from the start of its memory and without gaps."""
    return axes_order(value) == tuple(range(value.dim()))


def looks_dense(value: torch.Tensor) -> bool:
    """Whether sizes like those of the tracing give a dense value: for sizes that only the device knows."""
    reach = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if example(size) != 1 and example(stride) != reach:
            return False
        reach *= example(size)
    return example(value.storage_offset()) == 0
