"""Which part of the results of a padded run is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from air_aclgraph.buckets._buffers import Values, evaluated, shape_of
from air_aclgraph.buckets._proven import Bucket
from air_fxpasses.padding import Labels

Cut = Callable[[Any, Sequence[Any]], Any]
"""From a result of the padded run and the caller's inputs to the caller's result."""


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
