"""Lets torch trace on an NPU what torch_npu's own kernels keep from being traced.

torch_npu has kernels of its own for operators that torch composes of others, and some of them are reached while torch
traces, before it looks for fake tensors. They fail there, whichever compiler asks, or state another type than theirs:

    x.fill_diagonal_(0.0)            runs in eager; in a trace: "its data is not allocated yet"

While torch traces, what it composes itself is traced instead.

torch also traces an interpolation as arithmetic, and ends it with `.contiguous(memory_format=...)` in the format of its
input. torch_npu refuses all formats but the plain one, also while torch traces: no compiler could trace a model that
interpolates what it has permuted, as vision transformers do with the positions of patches. torch_npu's own kernels give
plain results there, and that is what the decompositions get here. A program that asks for such a format itself is
refused as it is in eager.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload

_KEY: Final = DispatchKey.AutogradPrivateUse1
_DECOMPOSITIONS: Final = ("torch._decomp", "torch._refs")

_aten: Final = torch.ops.aten
COMPOSED: Final = (
    _aten.fill_diagonal_.default,
    _aten.log_sigmoid.out,
    _aten.max.out,
    _aten.min.out,
    _aten.multilabel_margin_loss.out,
    _aten.nanmean.out,
    _aten.slogdet.default,
)
"""Operators whose kernel of torch_npu cannot be asked with fake tensors."""


def trace_on_npu() -> None:
    """Serves tracing alone: torch asks kernels in Python only while it traces. torch_npu may be imported later."""
    kernels: dict[OpOverload, Callable[..., Any]] = {each: each.decompose for each in COMPOSED}
    kernels |= {_aten.contiguous.default: _contiguous, _aten.one_hot.default: _one_hot}
    for operator, kernel in kernels.items():
        if _KEY not in operator.py_kernels:
            operator.py_impl(_KEY)(kernel)


def _one_hot(indices: Tensor, num_classes: int = -1) -> Tensor:
    """torch_npu takes indices of other types than torch, and gives results of the type of its indices."""
    result: Tensor = _aten.one_hot.default.decompose(indices, num_classes)
    return result.to(indices.dtype)


def _contiguous(tensor: Tensor, *, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    if tensor.device.type == "npu" and _is_decomposing(sys._getframe().f_back):
        memory_format = torch.contiguous_format
    with torch._C._DisablePythonDispatcher():
        return tensor.contiguous(memory_format=memory_format)


def _is_decomposing(caller: FrameType | None) -> bool:
    """There is no caller in a gradient: torch computes it in a thread without Python code."""
    return caller is not None and caller.f_globals.get("__name__", "").startswith(_DECOMPOSITIONS)
