"""Writes of rows into a tensor, with and without quantisation; the names that end in `_` write in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import Kernel, NpuOp, like_first
from air_fxpasses.npu_cards._ir import Fixed, Ir
from air_fxpasses.npu_cards._quantise import rounded
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding import _writes
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels, Unproven


def scatter_nd_update_(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """`input[indices[..., 0], indices[..., 1], ...] = updates`."""
    places = tuple(indices.to(torch.int64).unbind(-1))
    return input.index_put_(places, updates.to(input.dtype))


def scatter_update_(input: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Batch `b` of `updates` goes to `indices[b]` along `axis`, or to batch and place `indices[b]`."""
    dim = axis % input.dim()
    if dim == 0:
        raise NotCovered("scatter_update", "axis 0, the batch; updates go along a later axis")
    places = indices.to(torch.int64)
    count = updates.shape[0]
    batch = places[:, 0] if places.dim() == 2 else torch.arange(count, device=input.device)
    start = places[:, 1] if places.dim() == 2 else places
    along = start.unsqueeze(1) + torch.arange(updates.shape[dim], device=input.device)
    target = input.movedim(dim, 1)
    target.index_put_((batch.unsqueeze(1), along), updates.movedim(dim, 1).to(input.dtype))
    return input


def quant_scatter_(
    input: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: Code = None,
    round_mode: str | None = "rint",
) -> Tensor:
    """As `scatter_update_`, the updates divided by the scales and rounded to the type of `input`."""
    if reduce != "update" or round_mode not in (None, "rint"):
        raise NotCovered("npu_quant_scatter_", f"reduce '{reduce}' with round_mode '{round_mode}'")
    if type_of(dst_type, input.dtype, "npu_quant_scatter_") != input.dtype:
        raise NotCovered("npu_quant_scatter_", "a dst_type other than the type of input")
    shape = [1] * updates.dim()
    shape[quant_axis] = -1
    values = wide(updates) / wide(quant_scales).reshape(shape)
    if quant_zero_points is not None:
        values = values + wide(quant_zero_points).reshape(shape)
    return scatter_update_(input, indices, rounded(values, input.dtype), axis)


def gather_backward(
    grad: Tensor, self_size: Sequence[int], dim: int, index: Tensor, sparse_grad: bool
) -> Tensor:
    """The gradient of `gather`: what several places took from one element is added up there."""
    if sparse_grad:
        raise NotCovered("npu_gather_backward", "sparse_grad=True")
    return grad.new_zeros(self_size).scatter_add(dim, index.to(torch.int64), grad)


def _on_a_copy(write: Kernel) -> Kernel:
    """The form that gives the tensor with the updates in it, and leaves its argument alone."""
    return lambda input, *args, **options: write(
        input.clone(memory_format=torch.contiguous_format), *args, **options
    )


def _itself(input: Tensor, *_: object, **__: object) -> Tensor:
    return input


def _padded(call: Call) -> tuple[Labels, ...]:
    """The last dimension of the indices is the place of one row."""
    labels, indices, updates = (call.labels(name) for name in ("input", "indices", "updates"))
    call.require_none(labels, _writes.PADDED)
    call.require_none(indices[-1:], "the place of a row is taken from several rows")
    _writes.require_copies(call, call["indices"], call["updates"])
    if updates[: len(indices) - 1] != indices[:-1] or any(updates[len(indices) - 1 :]):
        raise Unproven("its operands are padded in different places")
    return (labels,)


def _places(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(2, 5, 8), torch.tensor([[0, 3], [1, 2]]), draw.real(2, 8)))]


def _starts(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(2, 3, 8, 16), torch.tensor([1, 4]), draw.real(2, 3, 2, 16), -2))]


def _quantised(draw: Draw) -> list[Sample]:
    updates, scales = draw.real(2, 3, 1, 32), draw.positive(32, dtype=F32)
    return [Sample((draw.small(2, 3, 8, 32), torch.tensor([1, 4], dtype=torch.int32), updates, scales))]


def _gathered(draw: Draw) -> list[Sample]:
    index = torch.tensor([[0, 3, 3], [1, 2, 0]])
    return [
        Sample((draw.real(2, 3, dtype=F32), [2, 4], 1, index, False)),
        Sample((draw.real(2, 3, dtype=F32), [5, 3], -2, index, False), label="rows"),
        Sample((draw.real(dtype=F32), [], 0, torch.tensor(0), False), label="one"),
    ]


_BY_PLACE: Final = Ir("ScatterNdUpdate", {"var": "input"})
_BY_START: Final = Ir("Scatter", {"var": "input", "reduce": Fixed("update")})
_BY_SCALE: Final = Ir(
    "QuantUpdateScatter", {"var": "input"}, only={"reduce": "update"}, ignored=("dst_type",)
)
_PLACE: Final = "npu_scatter_nd_update"

OPS: Final = (
    NpuOp(_PLACE, _on_a_copy(scatter_nd_update_), _places, like_first, padding=_padded, ir=_BY_PLACE),
    NpuOp(f"{_PLACE}_", scatter_nd_update_, _places, _itself, functional=_PLACE, ir=_BY_PLACE),
    NpuOp("scatter_update", _on_a_copy(scatter_update_), _starts, ir=_BY_START),
    NpuOp("scatter_update_", scatter_update_, _starts, functional="scatter_update", ir=_BY_START),
    NpuOp("npu_gather_backward", gather_backward, _gathered),
    NpuOp("npu_quant_scatter", _on_a_copy(quant_scatter_), _quantised, ir=_BY_SCALE),
    NpuOp("npu_quant_scatter_", quant_scatter_, _quantised, functional="npu_quant_scatter", ir=_BY_SCALE),
)
