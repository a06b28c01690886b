"""Where the outputs of a captured graph lie: in memory of their own, or in memory that other captures use as well.

Captures share a pool.  What one capture frees at its end another one is given, and so an output may lie where an
earlier graph computes: that graph's next replay writes it.  An output that somebody may have for longer is therefore
copied inside the graph, as its last step, into memory that never was the pool's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from air_aclgraph._memory import extent
from air_aclgraph.device import _npu
from air_aclgraph.device._weak import weak_tensor


def moved_out(
    outputs: Sequence[Any], known: set[int], elsewhere: Callable[[], AbstractContextManager[Any]]
) -> tuple[Any, ...]:
    """The outputs, copied to memory that is allocated inside `elsewhere()`; storages of inputs are `known`."""

    def copied(group: list[Tensor]) -> list[Tensor]:
        first = group[0]
        if len(group) == 1 and _is_formatted(first):
            with elsewhere():
                own = _npu.formatted_like(first)
            assert own is not None, "a format that is not plain has memory of its own kind"
            return [own.copy_(first)]
        low = min(t.storage_offset() * t.element_size() for t in group)
        high = max((t.storage_offset() + extent(t)) * t.element_size() for t in group)
        with elsewhere():
            memory = torch.empty(high, dtype=torch.uint8, device=first.device)
        if low < high:
            memory[low:high].copy_(_bytes(first)[low:high])
        return [_placed(t, memory) for t in group]

    return _by_storage(outputs, known, copied)


def weakened(outputs: Sequence[Any], known: set[int]) -> tuple[Any, ...]:
    """The outputs without a claim on their blocks, so that the pool can use them for the next capture."""

    def weak(group: list[Tensor]) -> list[Tensor]:
        if len(group) == 1 and not group[0].storage_offset():
            return [weak_tensor(group[0])]
        memory = weak_tensor(_bytes(group[0]))
        return [_placed(t, memory) for t in group]

    return _by_storage(outputs, known, weak)


def _by_storage(
    outputs: Sequence[Any], known: set[int], of: Callable[[list[Tensor]], list[Tensor]]
) -> tuple[Any, ...]:
    """Replaces outputs, those that share a storage together."""
    groups: dict[int, list[int]] = {}
    for index, value in enumerate(outputs):
        if isinstance(value, Tensor) and value.untyped_storage()._cdata not in known:
            groups.setdefault(value.untyped_storage()._cdata, []).append(index)
    found = list(outputs)
    for group in groups.values():
        for index, tensor in zip(group, of([outputs[i] for i in group]), strict=True):
            found[index] = tensor
    return tuple(found)


def _is_formatted(tensor: Tensor) -> bool:
    return tensor.device.type == "npu" and not _npu.is_plain(tensor)


def _bytes(tensor: Tensor) -> Tensor:
    """The storage of a tensor as bytes."""
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


def _placed(tensor: Tensor, memory: Tensor) -> Tensor:
    """The same place in another storage, with what is left to do for complex values."""
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    placed = empty.set_(memory.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        placed = torch._conj(placed)
    return torch._neg_view(placed) if tensor.is_neg() else placed
