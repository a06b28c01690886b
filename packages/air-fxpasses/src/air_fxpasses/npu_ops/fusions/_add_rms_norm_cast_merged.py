"""Add and norm on rows, also wanted in 32 bits: one operator and views; the rest may want the norm as it is."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from air_fxpasses.npu_ops.fusions._add_rms_norm_cast import CAST, cast_replace, to_float
from air_fxpasses.npu_ops.fusions._rows import aten, norm_rows, npu


def _cast_merged_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    merged = aten.view.default(y, [-1, x1.shape[-1]])
    return to_float(merged), merged, x


def _cast_merged_replace(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    wide, y, x = cast_replace(x1, x2, gamma, epsilon)
    width = x1.shape[-1]
    return aten.view.default(wide, [-1, width]), aten.view.default(y, [-1, width]), x


def _cast_rows_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    return to_float(aten.view.default(y, [-1, x1.shape[-1]])), y, x


def _cast_rows_replace(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    wide, y, x = cast_replace(x1, x2, gamma, epsilon)
    return aten.view.default(wide, [-1, x1.shape[-1]]), y, x


ROWS: Final = (
    *norm_rows(
        "add_rms_norm_cast_merged", _cast_merged_search, _cast_merged_replace, (3, 5, 64), requires=CAST
    ),
    *norm_rows("add_rms_norm_cast_rows", _cast_rows_search, _cast_rows_replace, (3, 5, 64), requires=CAST),
)
