"""Tensors that point at a block without owning it."""

from __future__ import annotations

import torch
from torch import Tensor

from air_aclgraph.device import _npu
from air_graph import with_bits_of


def weak_tensor(tensor: Tensor) -> Tensor:
    """The same memory, sizes and strides; freeing the original gives the block back to its pool."""
    if tensor.device.type == "npu":
        return with_bits_of(tensor, _npu.torch_npu()._C._weak_ref_tensor(tensor))
    storage = tensor.untyped_storage()
    alias = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), tensor.device, storage.nbytes())
    metadata = {
        "size": tensor.shape,
        "stride": tensor.stride(),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "storage_offset": tensor.storage_offset(),
        "nbytes": storage.nbytes(),
        "data_ptr": storage.data_ptr(),
    }
    return with_bits_of(tensor, torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(metadata, alias))
