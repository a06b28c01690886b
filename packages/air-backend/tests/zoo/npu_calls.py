"""Lets diffusers run on the CPU beside torch_npu: it calls operators of torch_npu there for tensors of any device."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

_declared: Final[list[torch.library.Library]] = []


def give_the_cpu_what_diffusers_calls() -> None:
    """To be called before a model runs on the CPU; does nothing where torch_npu is not loaded."""
    if _declared or not hasattr(torch.ops.npu, "npu_geglu"):
        return
    library = torch.library.Library("npu", "IMPL")
    for name, kernel in {"npu_geglu": geglu, "npu_rms_norm": rms_norm}.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"npu::{name}", "CPU"):
            library.impl(name, kernel, "CPU")
    _declared.append(library)


def geglu(
    x: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[Tensor, Tensor]:
    """One half times gelu of the other, and that gelu."""
    left, right = x.chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    gelu = functional.gelu(gate, approximate="tanh" if approximate == 1 else "none")
    return other * gelu, gelu


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Divided by the root of the mean square; also one over that root."""
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    wide = x.float()
    root = torch.rsqrt(wide.square().mean(axes, keepdim=True) + epsilon)
    return (wide * root * gamma.float()).to(x.dtype), root
