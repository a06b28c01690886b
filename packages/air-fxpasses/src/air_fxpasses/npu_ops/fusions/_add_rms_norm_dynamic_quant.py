"""Add and norm, then a dynamic quantisation: one operator."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops.fusions._rows import norm_rows, npu, scale


def _dynamic_search(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    values, scale = npu().npu_dynamic_quant.default(y, smooth_scales=smooth)
    return values, scale, x


def dynamic_replace(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    """The fused operator, with its results in the order of the pattern."""
    fused = npu().npu_add_rms_norm_dynamic_quant.default(
        x1, x2, gamma, smooth_scale1=smooth, epsilon=epsilon, output_mask=[True, False]
    )
    return fused[0], fused[3], fused[2]


DYNAMIC: Final = ("npu::npu_dynamic_quant", "npu::npu_add_rms_norm_dynamic_quant")
ROWS: Final = norm_rows(
    "add_rms_norm_dynamic_quant",
    _dynamic_search,
    dynamic_replace,
    (5, 64),
    (scale(torch.float16),),
    requires=DYNAMIC,
)
