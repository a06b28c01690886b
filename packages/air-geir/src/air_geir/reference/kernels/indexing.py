"""Reading and writing elements by index or mask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain


def _at(indices: Tensor) -> tuple[Tensor, ...]:
    """What the last axis of the indices addresses: the leading axes of a tensor."""
    return tuple(indices.long().unbind(-1))


plain(
    {
        "MaskedSelect": torch.masked_select,
        "MaskedScatter": torch.masked_scatter,
        "GatherElements": (lambda x, index, dim: torch.gather(x, dim, index.long()), "dim"),
        "GatherNd": lambda x, indices: x[_at(indices)],
        "TensorScatterUpdate": lambda x, indices, updates: x.index_put(_at(indices), updates),
        "InplaceUpdate": lambda x, indices, v: x.index_copy(0, indices.long(), v),  # on a copy
        "Where": torch.nonzero,
        "UniqueWithCountsAndSorting": (
            partial(torch.unique, return_inverse=True, return_counts=True),
            "sorted",
        ),
        "EmbeddingDenseGrad": (
            torch.ops.aten.embedding_dense_backward.default,
            "num_weights padding_idx scale_grad_by_freq",
        ),
    }
)
plain(
    {
        "ScatterNdUpdate": lambda var, indices, updates: var.index_put_(_at(indices), updates),
        "ScatterNdAdd": lambda var, indices, updates: var.index_put_(_at(indices), updates, accumulate=True),
        "ScatterUpdate": lambda var, indices, updates: var.index_put_((indices.long(),), updates),
    },
    writes={"var": 0},
)


def _wrapped(indices: Tensor, size: int) -> Tensor:
    """Negative indices count from the end."""
    return torch.where(indices < 0, indices + size, indices)


@kernel("GatherV2", host=("axis",))
def gather_v2(op: Operator) -> Run:
    """Slices along an axis, picked by a tensor of any rank."""
    batch, negative = int(op.attr("batch_dims")), bool(op.attr("negative_index_support"))

    def run(x: Tensor, indices: Tensor, axis: int | tuple[int, ...]) -> Tensor:
        dim = (axis if isinstance(axis, int) else axis[0]) % x.dim()
        return _gather(x, _wrapped(indices, x.shape[dim]) if negative else indices, dim, batch)

    return run


@kernel("Gather")
def gather(op: Operator) -> Run:
    """GatherV2 along the axis after the batch axes."""
    batch = int(op.attr("batch_dims"))
    return lambda x, indices: _gather(x, indices, batch, batch)


def _gather(x: Tensor, indices: Tensor, dim: int, batch: int) -> Tensor:
    if batch:
        rows = [_gather(x[i], indices[i], dim - 1, batch - 1) for i in range(x.shape[0])]
        return torch.stack(rows)
    if indices.dim() == 1:
        return x.index_select(dim, indices)
    picked = x.index_select(dim, indices.reshape(-1))
    return picked.reshape((*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]))


@kernel("IndexByTensor")
def index_by_tensor(op: Operator) -> Run:
    """Advanced indexing: the mask says which axes have an index, in order."""
    mask = op.ints("indices_mask")

    def run(x: Tensor, indices: Sequence[Tensor]) -> Tensor:
        result: Tensor = torch.ops.aten.index.Tensor(x, _spread(mask or [1] * len(indices), indices))
        return result

    return run


@kernel("Index", host=("indexed_sizes",))
def index(op: Operator) -> Run:
    """Advanced indexing: indexed_sizes has a one for every axis with an index."""

    def run(x: Tensor, sizes: tuple[int, ...], strides: Tensor, indices: Sequence[Tensor]) -> Tensor:
        result: Tensor = torch.ops.aten.index.Tensor(x, _spread(sizes, indices))
        return result

    return run


@kernel("IndexPutV2", host=("indexed_sizes",), writes={"x": 0})
def index_put(op: Operator) -> Run:
    """Advanced index assignment, in place; `accumulate` adds."""
    accumulate = bool(op.attr("accumulate"))

    def run(
        x: Tensor, value: Tensor, sizes: tuple[int, ...], strides: Tensor, indices: Sequence[Tensor]
    ) -> Tensor:
        result: Tensor = torch.ops.aten.index_put_.default(x, _spread(sizes, indices), value, accumulate)
        return result

    return run


def _spread(mask: Sequence[int], indices: Sequence[Tensor]) -> list[Tensor | None]:
    left = iter(indices)
    return [next(left).long() if flag else None for flag in mask]


@kernel("InplaceIndexAdd", writes={"var": 0})
def inplace_index_add(op: Operator) -> Run:
    """Adds slices into var, in place."""
    axis = int(op.attr("axis"))

    def run(var: Tensor, indices: Tensor, updates: Tensor, alpha: Tensor | None) -> Tensor:
        scaled = updates if alpha is None else updates * alpha
        return var.index_add_(axis, indices.long(), scaled)

    return run


_REDUCE = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax", "mean": "mean"}


@kernel("ScatterElements", "ScatterElementsV2")
def scatter_elements(op: Operator) -> Run:
    """A copy of data with updates put (or reduced) at the indices along an axis."""
    axis, reduction = int(op.attr("axis")), op.attr("reduction")
    if reduction == "none":
        return lambda data, indices, updates: torch.scatter(data, axis, indices.long(), updates)
    if reduction not in _REDUCE:
        raise op.refuse(f"reduction {reduction!r} is unknown")
    how = _REDUCE[reduction]
    return lambda data, indices, updates: torch.scatter_reduce(data, axis, indices.long(), updates, how)


@kernel("Scatter", writes={"var": 0})
def scatter(op: Operator) -> Run:
    """Writes updates[i] into var[i] from position indices[i] on along an axis, in place (a KV cache)."""
    axis = int(op.attr("axis"))

    def run(var: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        dim = axis % var.dim()
        starts = indices.reshape(-1, 2) if indices.dim() == 2 else None
        for i in range(updates.shape[0]):
            row, start = (
                (int(starts[i, 0]), int(starts[i, 1])) if starts is not None else (i, int(indices[i]))
            )
            var[row].narrow(dim - 1, start, updates.shape[dim]).copy_(updates[i])
        return var

    return run


@kernel("NonZero")
def non_zero(op: Operator) -> Run:
    """Coordinates of the elements that are not zero, one per row (per column when transposed)."""
    dtype, transposed = op.dtype("dtype"), bool(op.attr("transpose"))
    return lambda x: (torch.nonzero(x).t() if transposed else torch.nonzero(x)).to(dtype)


@kernel("OneHot", host=("depth",))
def one_hot(op: Operator) -> Run:
    """on_value where the new axis equals the index, off_value elsewhere."""
    axis = int(op.attr("axis"))

    def run(x: Tensor, depth: int, on_value: Tensor, off_value: Tensor) -> Tensor:
        hit = x.unsqueeze(-1) == torch.arange(depth)
        return torch.where(hit if axis == -1 else hit.movedim(-1, axis), on_value, off_value)

    return run


@kernel("EmbeddingBag")
def embedding_bag(op: Operator) -> Run:
    """Rows of a table summed, averaged or maximised bag by bag."""
    mode = {"sum": 0, "mean": 1, "max": 2}[op.attr("mode")]
    last, padding = bool(op.attr("include_last_offset")), int(op.attr("padding_idx"))
    scale = bool(op.attr("scale_grad_by_freq"))

    def run(
        weight: Tensor, indices: Tensor, offsets: Tensor | None, weights: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Torch's kernel takes places to lie densely, and reads others wrongly."""
        starts = torch.zeros(1, dtype=indices.dtype) if offsets is None else offsets.contiguous()
        out: tuple[Tensor, ...] = torch.ops.aten._embedding_bag.default(
            weight, indices.contiguous(), starts, scale, mode, False, weights, last, padding
        )
        return out

    return run


@kernel("UniqueWithCountsExt2")
def unique(op: Operator) -> Run:
    """Sorted distinct elements, where each element went, and how many there are."""
    dtype = op.dtype("out_idx")

    def run(x: Tensor, axis: Tensor) -> tuple[Tensor, ...]:
        values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True)
        return values, inverse.to(dtype), counts.to(dtype)

    return run


@kernel("UniqueConsecutive")
def unique_consecutive(op: Operator) -> Run:
    """Runs of equal elements as one each, where each element went, and how long the runs are."""
    axis = int(op.attr("axis"))
    dim = None if axis == 1000 else axis
    return lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)
