"""Add and norm, also wanted in 32 bits: one operator."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops.fusions._rows import aten, norm_rows, npu


def to_float(x: Tensor) -> Any:
    """The cast as PyTorch writes it."""
    return aten._to_copy.default(x, dtype=torch.float32)


def _cast_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    return to_float(y), y, x


def _npu_cast_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    return npu()._npu_dtype_cast.default(y, torch.float32), y, x


def cast_replace(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    """The fused operator, with its results in the order of the pattern."""
    wide, y, _, x = npu().npu_add_rms_norm_cast.default(x1, x2, gamma, epsilon)
    return wide, y, x


CAST: Final = ("npu::npu_add_rms_norm_cast",)
ROWS: Final = (
    *norm_rows("add_rms_norm_cast", _cast_search, cast_replace, (5, 64), requires=CAST),
    *norm_rows("add_rms_norm_npu_cast", _npu_cast_search, cast_replace, (5, 64), requires=CAST),
)
