"""Tensors over device memory that something else owns, by the extension inside the torch_npu wheel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from air_geir.engines import _extension as extension
from air_geir.errors import EngineError

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "UINT8",
    torch.int8: "INT8",
    torch.int16: "INT16",
    torch.uint16: "UINT16",
    torch.int32: "INT32",
    torch.uint32: "UINT32",
    torch.int64: "INT64",
    torch.uint64: "UINT64",
    torch.bfloat16: "BF16",
    torch.float16: "FLOAT16",
    torch.float32: "FLOAT32",
    torch.float64: "FLOAT64",
    torch.complex64: "COMPLEX64",
    torch.complex128: "COMPLEX128",
}
"""Names in the extension's own numbering of types."""


def tensors_at(shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]) -> list[Tensor]:
    """One tensor per address of the current NPU; nothing is copied, and nothing keeps the memory alive."""
    module = extension.load()
    if dtype not in _NAMES:
        known = ", ".join(str(known).removeprefix("torch.") for known in _NAMES)
        raise EngineError(
            f"a tensor over an address cannot be of type {dtype}", advice=f"use one of: {known}"
        )
    number = getattr(module.TorchDataType, _NAMES[dtype])
    failed, tensors = module.as_torch_tensors(list(shape), number, list(addresses))
    if failed:
        raise EngineError(
            f"the extension could not make tensors of {list(shape)} over {len(addresses)} addresses: error {failed}",
            advice="check that each address is memory of the current NPU and large enough",
        )
    made: list[Tensor] = tensors
    return made
