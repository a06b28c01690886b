"""Places in memory: a tensor as a part of a storage, and copies of tensors that share memory as the originals do."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

PLAIN_NPU_FORMATS: Final = frozenset((-1, 0, 1, 2, 30))
"""Memory formats of torch_npu in which memory is what the strides say: none, NCHW, NHWC, ND, NCDHW.

A tensor in one of the others has a larger storage, which only its device can read.
"""


def placed(tensor: Tensor, storage: torch.UntypedStorage, offset: int) -> Tensor:
    """A tensor with the sizes, strides and dtype of another, in this storage."""
    empty = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return empty.set_(storage, offset, tensor.shape, tensor.stride())


def same_place(tensor: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """The same place in another storage, with the conjugate and negative bits."""
    return with_bits_of(tensor, placed(tensor, storage, int(tensor.storage_offset())))


def with_bits_of(tensor: Tensor, plain: Tensor) -> Tensor:
    """The plain memory of a tensor with the conjugate and negative bits of that tensor."""
    conjugated = torch._conj(plain) if tensor.is_conj() else plain
    return torch._neg_view(conjugated) if tensor.is_neg() else conjugated


def copied(value: Any, *, with_gradients: bool = False) -> Any:
    """The same structure with copies of its tensors: what shares memory, or is one object, still does.

    They are leaves for autograd without gradients; `with_gradients` says that they want them where the originals do.
    """
    made: dict[int, Tensor] = {}
    storages: dict[int, torch.UntypedStorage] = {}

    def own(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            copy = _in_a_copy(tensor, storages) if _is_only_a_place(tensor) else tensor.detach().clone()
            made[id(tensor)] = copy.requires_grad_(tensor.requires_grad) if with_gradients else copy
        return made[id(tensor)]

    return tree_map_only(Tensor, own, value)


def _in_a_copy(tensor: Tensor, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    old = tensor.untyped_storage()
    if old._cdata not in storages:
        storages[old._cdata] = old.clone()
    return same_place(tensor, storages[old._cdata])


def _is_only_a_place(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, nn.Parameter)
    if not plain or tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    if tensor.device.type != "npu":
        return True
    return int(torch.ops.npu.get_npu_format(tensor)) in PLAIN_NPU_FORMATS  # torch_npu's, as the tensor is
