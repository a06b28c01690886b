"""Gated activations."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops._row import NpuOp
from air_fxpasses.npu_ops._types import wide


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """`silu` of the first half along `dim`, times the second half."""
    gate, linear = wide(input).chunk(2, dim)
    return (torch.nn.functional.silu(gate) * linear).to(input.dtype)


def _swiglu_fake(input: Tensor, dim: int = -1) -> Tensor:
    size = list(input.shape)
    torch._check(size[dim] % 2 == 0, lambda: f"npu_swiglu halves axis {dim}, whose size is odd")
    size[dim] = size[dim] // 2
    return input.new_empty(size)


OPS: Final = (NpuOp("npu_swiglu", swiglu, _swiglu_fake),)
