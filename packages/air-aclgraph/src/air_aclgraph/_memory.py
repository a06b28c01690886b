"""The memory of an executable: the buffers that inputs are copied into.

A buffer has the strides of the tensor it stands for, so that the graph sees the layout it was traced with.
All shape keys share it: one replay runs at a time, and every call fills it again.  An overlapping tensor (an
expanded one) is copied as the flat stretch of memory it covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_iter

from air_graph import placed, with_bits_of


def tensors_of(value: object) -> Iterator[Tensor]:
    """The tensors inside arguments or results."""
    return (leaf for leaf in tree_iter(value) if isinstance(leaf, Tensor))


def extent(tensor: Tensor) -> int:
    """Elements from the first to the last one the tensor reaches."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether two elements may share an address."""
    reach = 1
    dims = sorted(
        (stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )
    for stride, size in dims:
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def flat(tensor: Tensor) -> Tensor:
    """The stretch of memory the tensor covers, as one dimension."""
    return tensor.as_strided((extent(tensor),), (1,), tensor.storage_offset())


def place_in_storage(tensor: Tensor) -> tuple[int, int]:
    """Where the tensor begins in its storage, in elements, and the bytes of that."""
    return int(tensor.storage_offset()), tensor.untyped_storage().nbytes()


def whole(tensor: Tensor) -> Tensor:
    """All bytes of the storage, whatever part of it the tensor is."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def has_gaps(tensor: Tensor) -> bool:
    """Whether the storage holds more than the elements of the tensor."""
    return tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()


def is_of_others(tensor: Tensor) -> bool:
    """Whether its memory was made by another library, or is another process's, a file's or the host's driver's as well.

    Somebody may have such memory without any tensor over it.
    """
    if not tensor.untyped_storage().resizable():
        return True
    return tensor.device.type == "cpu" and (tensor.is_shared() or tensor.is_pinned())


def byte_range(tensor: Tensor, *, all_of_storage: bool = False) -> tuple[int, int]:
    """First address and the one after the last."""
    if all_of_storage:
        start = tensor.untyped_storage().data_ptr()
        return start, start + tensor.untyped_storage().nbytes()
    start = tensor.data_ptr()
    return start, start + extent(tensor) * tensor.element_size()


@dataclass
class Buffers:
    """One piece of memory per copied input; a larger shape gets a new piece, smaller ones share it."""

    device: torch.device
    _storages: dict[int | tuple[int, int], torch.UntypedStorage] = field(default_factory=dict)
    _let_go: dict[int | tuple[int, int], StorageWeakRef] = field(default_factory=dict)
    """Pieces that the next capture gets as long as another one has them."""

    def _piece(self, key: int | tuple[int, int], needed: int) -> torch.UntypedStorage:
        """Memory of at least so many bytes, under this name."""
        storage = self._storages.get(key)
        let_go = self._let_go.pop(key, None)  # by a name: the reference has to be there until it is followed
        if storage is None and let_go is not None:
            storage = torch.UntypedStorage._new_with_weak_ptr(let_go.cdata)
        if storage is None or storage.nbytes() < needed:
            storage = torch.empty(needed, dtype=torch.uint8, device=self.device).untyped_storage()
        self._storages[key] = storage
        return storage

    def like(self, index: int, tensor: Tensor) -> Tensor:
        """A tensor with the sizes, strides and dtype of `tensor` in the buffer of input `index`."""
        needed = extent(tensor) * tensor.element_size()
        return with_bits_of(tensor, placed(tensor, self._piece(index, needed), 0))

    def whole_like(self, index: int, tensor: Tensor) -> Tensor:
        """A tensor that lies in a storage of its own as `tensor` does in its."""
        offset, nbytes = place_in_storage(tensor)
        return with_bits_of(tensor, placed(tensor, self._piece((index, nbytes), nbytes), offset))

    def drop(self, index: int) -> None:
        """Lets go of the buffer of an input that is used where it is; captures that have it keep it."""
        for key in [
            key for key in self._storages if key == index or (isinstance(key, tuple) and key[0] == index)
        ]:
            self._let_go[key] = StorageWeakRef(self._storages.pop(key))

    def held(self) -> dict[int, int]:
        """The storages that the next capture may be given, and their bytes; older captures may have others."""
        return {storage._cdata: storage.nbytes() for storage in self._storages.values()}

    def clear(self) -> None:
        """Lets go of every buffer."""
        self._storages.clear()
        self._let_go.clear()


def fill(buffer: Tensor, value: Tensor) -> None:
    """Copies a value into memory that lies like it, also where elements share an address."""
    if overlaps_itself(buffer):
        flat(buffer).copy_(flat(value.detach()))
    else:
        buffer.copy_(value.detach())


def used_of(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """The first byte of a storage that some tensors use, and the one after the last; an empty one uses none."""
    starts = [(t, int(t.storage_offset() * t.element_size())) for t in tensors if t.numel()]
    ends = (start + int(extent(t)) * t.element_size() for t, start in starts)
    return min((start for _, start in starts), default=0), max(ends, default=0)
