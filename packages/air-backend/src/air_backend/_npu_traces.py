"""Lets torch's decompositions ask for a memory format that an NPU does not have.

torch traces an interpolation as arithmetic, and ends it with `.contiguous(memory_format=...)` in the format of its
input. torch_npu refuses all formats but the plain one, also while torch traces: no compiler could trace a model that
interpolates what it has permuted, as vision transformers do with the positions of patches. torch_npu's own kernels give
plain results there, and that is what the decompositions get here.

A program that asks for such a format itself is refused as it is in eager.
"""

from __future__ import annotations

import sys
from typing import Final

import torch
from torch import Tensor
from torch._C import DispatchKey

_KEY: Final = DispatchKey.AutogradPrivateUse1
_DECOMPOSITIONS: Final = ("torch._decomp", "torch._refs")


def trace_plain_formats() -> None:
    """Serves tracing alone: torch asks kernels in Python only while it traces. torch_npu may be imported later."""
    contiguous = torch.ops.aten.contiguous.default
    if _KEY not in contiguous.py_kernels:
        contiguous.py_impl(_KEY)(_contiguous)


def _contiguous(tensor: Tensor, *, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    if tensor.device.type == "npu" and sys._getframe(1).f_globals["__name__"].startswith(_DECOMPOSITIONS):
        memory_format = torch.contiguous_format
    with torch._C._DisablePythonDispatcher():
        return tensor.contiguous(memory_format=memory_format)
