"""TorchAir's `torchair.llm_datadist`: tensors over memory of the device that something else owns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from air_backend.errors import BadAddresses
from air_geir.engines import tensors_at

__all__ = ["create_npu_tensors"]


def create_npu_tensors(shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]) -> list[Tensor]:
    """One tensor per address, all of one shape and type; the memory must outlive them."""
    for name, numbers in (("shape", shape), ("addresses", addresses)):
        if not isinstance(numbers, (list, tuple)) or not all(type(n) is int for n in numbers):
            raise BadAddresses(f"{name} must be a list of int, got {numbers!r}")
    if not isinstance(dtype, torch.dtype):
        raise BadAddresses(f"dtype must be a torch.dtype, got {dtype!r}")
    return tensors_at(shape, dtype, addresses)
