"""What one size of the caller's means for a padded graph: where its inputs go, and which part of the results is its.

Everything that depends on sizes alone is worked out once per size; a call then copies, replays, and cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from air_aclgraph.buckets import Bucket
from air_fxpasses.padding import Labels

Values = Mapping[Any, int]
"""Symbol -> its value."""

Cut = Callable[[Any, Sequence[Any]], Any]
"""From a result of the padded run and the caller's inputs to the caller's result."""


def evaluated(size: Any, values: Values) -> int:
    """A size, which may be an expression of symbols, as a number."""
    node = getattr(size, "node", None)
    return int(size) if node is None else int(node.expr.xreplace(values))


def shape_of(example: Tensor, values: Values) -> tuple[list[int], list[int]]:
    """Sizes and strides of an example for these values of the symbols."""
    return [evaluated(s, values) for s in example.shape], [evaluated(s, values) for s in example.stride()]


@dataclass(frozen=True)
class Home:
    """The memory of one padded input of one bucket, and where its padding lies, by bucket."""

    index: int
    tensor: Tensor
    labels: tuple[tuple[Bucket, Labels], ...]

    def room(self, values: Values) -> Tensor:
        """The part that the caller's input goes to."""
        room = self.tensor
        for bucket, labels in self.labels:
            for dim, label in enumerate(labels):
                if label is not None:
                    used = _times(label.inner, bucket, values)
                    room = room.narrow(dim, 0, used)
        return room

    def fillings(self, values: Values) -> list[tuple[Tensor, Tensor]]:
        """(padding, first rows that fill it): one dimension after the other, since later ones repeat earlier ones."""
        found = []
        room = self.room(values)
        for _, labels in self.labels:
            for dim, label in enumerate(labels):
                if label is None:
                    continue
                used, block = room.shape[dim], _times(label.inner, None, values)
                room = _widened(room, self.tensor, dim)
                padding = room.narrow(dim, used, room.shape[dim] - used)
                if padding.numel():
                    rows = padding.unflatten(dim, (-1, block))
                    first = room.narrow(dim, 0, block).unsqueeze(dim).expand(rows.shape)
                    found.append((rows, first))
        return found


def _times(inner: Any, bucket: Bucket | None, values: Values) -> int:
    block = int(inner.xreplace(values))
    return block if bucket is None else block * values[bucket.symbols[0]]


def _widened(room: Tensor, whole: Tensor, dim: int) -> Tensor:
    """The room with all that `whole` has in one dimension."""
    sizes = list(room.shape)
    sizes[dim] = whole.shape[dim]
    return whole.as_strided(sizes, whole.stride(), whole.storage_offset())


def cut_of(
    example: Any,
    labels: Sequence[tuple[Bucket, Labels]],
    given: int | None,
    padded: Values,
    used: Values,
    *,
    lent: bool,
) -> Cut | None:
    """How a result becomes the caller's; None where it is already.

    A result that is `lent`, whose use is guarded, stays the object that it is.
    """
    if not isinstance(example, Tensor):
        is_size = not isinstance(example, (int, float, bool, str, type(None)))
        return (lambda result, args: evaluated(example, used)) if is_size else None
    if all(label is None for _, each in labels for label in each):
        return None
    if given is not None:
        return lambda result, args: args[given]
    sizes, strides = shape_of(example, used)
    whole = shape_of(example, padded)
    parts = [
        (dim, int(label.outer.xreplace(used)), padded[bucket.symbols[0]], used[bucket.symbols[0]])
        for bucket, each in labels
        for dim, label in enumerate(each)
        if label is not None
    ]

    def cut(result: Tensor, args: Sequence[Any]) -> Tensor:
        part = _without_padding(result, parts)
        if (list(result.shape), list(result.stride())) != whole or _lies_like(part, sizes, strides):
            if lent and part.untyped_storage()._cdata == result.untyped_storage()._cdata:
                return result.as_strided_(part.shape, part.stride(), part.storage_offset())
            return part
        return torch.empty_strided(sizes, strides, dtype=part.dtype, device=part.device).copy_(part)

    return cut


def _without_padding(result: Tensor, parts: Sequence[tuple[int, int, int, int]]) -> Tensor:
    for dim, outer, size, used in parts:
        if outer == 1:
            result = result.narrow(dim, 0, result.shape[dim] // size * used)
        else:
            rows = result.unflatten(dim, (outer, size, -1)).narrow(dim + 1, 0, used)
            result = rows.flatten(dim, dim + 2)
    return result


def _lies_like(tensor: Tensor, sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor has these strides, where they matter."""
    return list(tensor.shape) == list(sizes) and all(
        own == wanted or size == 1 for own, wanted, size in zip(tensor.stride(), strides, sizes, strict=True)
    )


def leaves_of(gm: torch.fx.GraphModule) -> list[Any]:
    """The example of each result, or the plain value that it is."""
    leaves = tree_leaves(gm.graph.output_node().args[0])
    return [leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
