"""Where the outputs of a captured graph lie: in memory of their own, or in memory that other captures use as well.

Captures share a pool.  What one capture frees at its end another one is given, and so an output may lie where an
earlier graph computes: that graph's next replay writes it.  For an output that somebody may have for longer there are
two ways.  The graph has a pool for itself, and its outputs stay where they are.  Or the output is copied inside the
graph, as its last step, into memory that never was the pool's.  That memory is made before the capture begins, from the
outputs of an ordinary run: torch_npu's allocator asks its events for every allocation on a stream that is not captured,
and the driver refuses to answer for those that belong to the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from air_aclgraph._memory import used_of, whole
from air_aclgraph.device import _npu
from air_aclgraph.device._weak import weak_tensor
from air_graph import by_storage, leaf_storages, same_place

Reserve = Mapping[tuple[int, ...], Tensor]


def reserved(outputs: Sequence[Any], inputs: Sequence[Any]) -> Reserve:
    """Memory for each storage that a run made for its outputs."""
    return {
        tuple(group): _memory_for([outputs[i] for i in group])
        for group in by_storage(outputs, leaf_storages(inputs))
    }


def moved_out(
    outputs: Sequence[Any],
    known: set[int],
    reserve: Reserve,
    elsewhere: Callable[[], AbstractContextManager[Any]],
) -> tuple[Any, ...]:
    """The outputs, copied to the memory reserved for them; storages of inputs are `known`.

    An output that lay in an input's memory when the memory was reserved, and does not in the capture, gets memory
    that is allocated inside `elsewhere()`.
    """
    found = list(outputs)
    for group in by_storage(outputs, known):
        tensors = [outputs[i] for i in group]
        memory = reserve.get(tuple(group))
        if memory is None or not _holds(memory, tensors):
            with elsewhere():
                memory = _memory_for(tensors)
        for index, tensor in zip(group, _copied(tensors, memory), strict=True):
            found[index] = tensor
    return tuple(found)


def let_alone(outputs: Sequence[Any], known: set[int]) -> tuple[Any, ...]:
    """The outputs where they lie, in tensors of which nobody knows: what they are views of may have other owners."""
    found = list(outputs)
    for group in by_storage(outputs, known):
        for index in group:
            if not _is_formatted(outputs[index]):
                found[index] = same_place(outputs[index], outputs[index].untyped_storage())
    return tuple(found)


def weakened(outputs: Sequence[Any], known: set[int]) -> tuple[Any, ...]:
    """The outputs without a claim on their blocks, so that the pool can use them for the next capture."""

    def weak(group: list[Tensor]) -> list[Tensor]:
        if len(group) == 1 and not group[0].storage_offset():
            return [weak_tensor(group[0])]
        memory = weak_tensor(whole(group[0]))
        return [same_place(t, memory.untyped_storage()) for t in group]

    found = list(outputs)
    for group in by_storage(outputs, known):
        for index, tensor in zip(group, weak([outputs[i] for i in group]), strict=True):
            found[index] = tensor
    return tuple(found)


def not_of_the_capture(inputs: Sequence[object], outputs: Sequence[object]) -> set[int]:
    """The storages of inputs, and of outputs that lie on the host: constants, of which no replay computes anything."""
    on_host = (t for t in outputs if isinstance(t, Tensor) and t.device.type == "cpu")
    return set(leaf_storages((*inputs, *on_host)))


def _memory_for(tensors: Sequence[Tensor]) -> Tensor:
    """Memory that can hold what some tensors use of the storage they share."""
    first = tensors[0]
    if len(tensors) == 1 and _is_formatted(first):
        own = _npu.formatted_like(first)
        assert own is not None, "a format that is not plain has memory of its own kind"
        return own
    return torch.empty(used_of(tensors)[1], dtype=torch.uint8, device=first.device)


def _holds(memory: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Whether memory that was reserved for other tensors is what `_memory_for` makes for these."""
    if memory.device != tensors[0].device:  # seeds of attention are on the host outside of captures
        return False
    if len(tensors) == 1 and _is_formatted(tensors[0]):
        return _is_formatted(memory) and memory.shape == tensors[0].shape
    return not _is_formatted(memory) and memory.nbytes == used_of(tensors)[1]


def _copied(tensors: Sequence[Tensor], memory: Tensor) -> list[Tensor]:
    """The same tensors in other memory."""
    if _is_formatted(memory):
        return [memory.copy_(tensors[0])]
    low, high = used_of(tensors)
    if low < high:
        memory[low:high].copy_(whole(tensors[0])[low:high])
    return [same_place(t, memory.untyped_storage()) for t in tensors]


def _is_formatted(tensor: Tensor) -> bool:
    return tensor.device.type == "npu" and not _npu.is_plain(tensor)
