"""Add and norm, then a dynamic quantisation with the first two axes merged in between: one operator and views."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops.fusions._add_rms_norm_dynamic_quant import DYNAMIC, dynamic_replace
from air_fxpasses.npu_ops.fusions._rows import aten, norm_rows, npu, scale


def _merged_search(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    merged = aten.view.default(y, [y.shape[0] * y.shape[1], *y.shape[2:]])
    values, scale = npu().npu_dynamic_quant.default(merged, smooth_scales=smooth)
    return values, aten.view.default(scale, [-1, 1]), x


def _merged_replace(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    values, scale, x = dynamic_replace(x1, x2, gamma, smooth, epsilon)
    merged = aten.view.default(values, [values.shape[0] * values.shape[1], *values.shape[2:]])
    return merged, aten.view.default(scale, [-1, 1]), x


ROWS: Final = norm_rows(
    "add_rms_norm_dynamic_quant_merged",
    _merged_search,
    _merged_replace,
    (3, 5, 64),
    (scale(torch.float16),),
    requires=DYNAMIC,
)
