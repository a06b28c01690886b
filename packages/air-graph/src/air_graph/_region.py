"""Which bytes of a storage a tensor covers, and whether two tensors can meet there.

Every answer is one-sided: `True` from a predicate that proves something is a proof, and where sizes are
symbolic and nothing is known, the answer is the cautious one. No guard is ever added to a shape
environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from air_graph._hints import hint_of

Extent = int | torch.SymInt


def surely(condition: bool | torch.SymBool) -> bool:
    """Whether `condition` holds for every value of the symbols in it."""
    return condition if isinstance(condition, bool) else statically_known_true(condition)


def same_extents(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Whether two shapes or strides are surely equal."""
    return len(a) == len(b) and all(x is y or surely(x == y) for x, y in zip(a, b, strict=True))


def read_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the same bytes are the same numbers to both: regions know no type, and nothing of conjugated views."""
    return (one.dtype, one.is_conj(), one.is_neg()) == (other.dtype, other.is_conj(), other.is_neg())


@dataclass(frozen=True, slots=True)
class Region:
    """The elements of one storage that a strided tensor touches; offsets and strides count bytes."""

    offset: Extent
    size: tuple[Extent, ...]
    stride: tuple[Extent, ...]
    itemsize: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Region:
        item = tensor.itemsize
        return cls(
            tensor.storage_offset() * item,
            tuple(tensor.size()),
            tuple(s * item for s in tensor.stride()),
            item,
        )

    @property
    def is_static(self) -> bool:
        return all(type(v) is int for v in (self.offset, *self.size, *self.stride))

    def dims(self) -> list[tuple[Extent, Extent]]:
        """(size, stride) of the dimensions that move the address."""
        return [(n, s) for n, s in zip(self.size, self.stride, strict=True) if not surely(n == 1)]

    def is_empty(self) -> bool:
        return any(surely(n == 0) for n in self.size)

    def end(self) -> Extent:
        """One past the last byte."""
        last: Extent = self.offset + self.itemsize
        for n, s in self.dims():
            last = last + (n - 1) * s
        return last

    def same(self, other: Region) -> bool:
        """Whether both surely name the same elements in the same order."""
        return (
            self.itemsize == other.itemsize
            and surely(self.offset == other.offset)
            and same_extents(self.size, other.size)
            and same_extents(self.stride, other.stride)
        )


def repeated_element(region: Region) -> str | None:
    """Why two indices of the region may name one element; `None` when that is ruled out."""
    dims = region.dims()
    if any(surely(s == 0) and not surely(n == 0) for n, s in dims):
        return "its memory is expanded: several elements share one address"
    reach: Extent = region.itemsize
    for n, s in sorted(dims, key=_by_stride):
        if not surely(s >= reach):
            return "its strides overlap: several elements may share one address"
        reach = n * s
    return None


def is_dense(region: Region) -> bool:
    """Whether the region surely is every element between its first and its last byte, each once."""
    reach: Extent = region.itemsize
    for n, s in sorted(region.dims(), key=_by_stride):
        if not surely(s == reach):
            return False
        reach = n * s
    return True


def surely_within(inner: Region, outer: Region) -> bool:
    """Whether every byte of `inner` lies between the first and the last of `outer`."""
    return surely(inner.offset >= outer.offset) and surely(inner.end() <= outer.end())


def _by_stride(dim: tuple[Extent, Extent]) -> tuple[int, int]:
    """What dimensions are sorted by: the stride, then the size; an unknown one counts as 0."""
    return hint_of(dim[1]) or 0, hint_of(dim[0]) or 0


def surely_disjoint(a: Region, b: Region) -> bool:
    """Whether no byte belongs to both regions of one storage."""
    if a.is_empty() or b.is_empty():
        return True
    if surely(a.end() <= b.offset) or surely(b.end() <= a.offset):
        return True
    if not (a.is_static and b.is_static):
        return False
    return _grid_disjoint(int(a.offset), _byte_dims(a), int(b.offset), _byte_dims(b))


def _byte_dims(region: Region) -> list[tuple[int, int]]:
    return [*((int(n), int(s)) for n, s in region.dims() if s != 0), (region.itemsize, 1)]


def _span(dims: Iterable[tuple[int, int]]) -> int:
    return 1 + sum((n - 1) * s for n, s in dims)


def _grid_disjoint(a_at: int, a: list[tuple[int, int]], b_at: int, b: list[tuple[int, int]]) -> bool:
    """Proves disjointness row by row: when both fit in rows of the largest stride, columns decide."""
    if a_at + _span(a) <= b_at or b_at + _span(b) <= a_at:
        return True
    row = max(s for _, s in (*a, *b))
    if row <= 1:
        return False
    a_inner = [d for d in a if d[1] != row]
    b_inner = [d for d in b if d[1] != row]
    a_column, b_column = a_at % row, b_at % row
    if a_column + _span(a_inner) > row or b_column + _span(b_inner) > row:
        return False
    return _grid_disjoint(a_column, a_inner, b_column, b_inner)
