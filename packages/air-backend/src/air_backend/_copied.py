"""Copies of arguments, for those who call a function more than once: what shares memory, or is one object, still does.

A function that writes one argument and reads another that lies in the same memory does so with the copies as well, and
a compiled graph meets the sizes, strides and offsets that the caller's tensors have.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

PLAIN_NPU_FORMATS: Final = (-1, 0, 1, 2)
"""None, NCHW, NHWC and ND; a tensor in one of the others has a larger storage, which only its device can read."""

REPEATS: Final = 1
"""What torch says of a tensor that was expanded."""


def copied(value: Any) -> Any:
    """The same structure with copies of its tensors, which are leaves for autograd and have no gradients."""
    made: dict[int, Tensor] = {}
    storages: dict[int, torch.UntypedStorage] = {}

    def own(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            copy = _in_storage(tensor, storages) if _is_plain(tensor) else tensor.detach().clone()
            made[id(tensor)] = copy.requires_grad_(tensor.requires_grad)
        return made[id(tensor)]

    return tree_map_only(Tensor, own, value)


def move_on(value: Any, places: int) -> None:
    """Moves the elements of all floating tensors on, in place; tensors that have an element twice stay."""
    tensors = {id(leaf): leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)}
    for tensor in tensors.values():
        if tensor.is_floating_point() and torch._debug_has_internal_overlap(tensor) != REPEATS:
            plain = tensor.detach()
            plain.copy_(plain.flatten().roll(places).view(plain.shape))


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is no more than a place in a storage."""
    if (
        type(tensor) not in (Tensor, nn.Parameter)
        or tensor.layout is not torch.strided
        or tensor.is_quantized
    ):
        return False
    if tensor.device.type != "npu":
        return True
    import torch_npu  # present whenever a tensor lives on an NPU

    return torch_npu.get_npu_format(tensor) in PLAIN_NPU_FORMATS


def _in_storage(tensor: Tensor, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    """The same place in a copy of the storage."""
    old = tensor.untyped_storage()
    storage = storages.get(old._cdata)
    if storage is None:
        storage = storages[old._cdata] = old.clone()
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    conjugated = torch._conj(made) if tensor.is_conj() else made
    return torch._neg_view(conjugated) if tensor.is_neg() else conjugated
