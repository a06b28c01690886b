"""The memory that inputs are padded in: the part that is the caller's, and the rows that fill up the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from air_aclgraph.buckets._proven import Bucket
from air_fxpasses.padding import Labels

Values = Mapping[Any, int]
"""Symbol -> its value."""


def evaluated(size: Any, values: Values) -> int:
    """A size, which may be an expression of symbols, as a number."""
    node = getattr(size, "node", None)
    return int(size) if node is None else int(node.expr.xreplace(values))


def shape_of(example: Tensor, values: Values) -> tuple[list[int], list[int]]:
    """Sizes and strides of an example for these values of the symbols."""
    return [evaluated(s, values) for s in example.shape], [evaluated(s, values) for s in example.stride()]


@dataclass(frozen=True)
class PaddedBuffer:
    """The memory of one padded input of one bucket, and where its padding lies, by bucket."""

    index: int
    tensor: Tensor
    labels: tuple[tuple[Bucket, Labels], ...]

    def callers_part(self, values: Values) -> Tensor:
        """The part that the caller's input goes to."""
        part = self.tensor
        for bucket, labels in self.labels:
            for dim, label in enumerate(labels):
                if label is not None:
                    used = _times(label.inner, bucket, values)
                    part = part.narrow(dim, 0, used)
        return part

    def fillings(self, values: Values) -> list[tuple[Tensor, Tensor]]:
        """(padding, first rows that fill it): one dimension after the other, since later ones repeat earlier ones."""
        found = []
        part = self.callers_part(values)
        for _, labels in self.labels:
            for dim, label in enumerate(labels):
                if label is None:
                    continue
                used, block = part.shape[dim], _times(label.inner, None, values)
                part = _widened(part, self.tensor, dim)
                padding = part.narrow(dim, used, part.shape[dim] - used)
                if padding.numel():
                    rows = padding.unflatten(dim, (-1, block))
                    first = part.narrow(dim, 0, block).unsqueeze(dim).expand(rows.shape)
                    found.append((rows, first))
        return found


def _times(inner: Any, bucket: Bucket | None, values: Values) -> int:
    block = int(inner.xreplace(values))
    return block if bucket is None else block * values[bucket.symbols[0]]


def _widened(part: Tensor, whole: Tensor, dim: int) -> Tensor:
    """The part with everything that `whole` has in one dimension."""
    sizes = list(part.shape)
    sizes[dim] = whole.shape[dim]
    return whole.as_strided(sizes, whole.stride(), whole.storage_offset())
