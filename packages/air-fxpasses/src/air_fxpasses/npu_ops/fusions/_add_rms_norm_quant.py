"""Add and norm, then a quantisation by division: one operator."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import Kernel
from air_fxpasses.npu_ops.fusions._rows import norm_rows, npu, scale, with_fixed
from air_fxpasses.patterns import Match

_BLOCK: Final = 32


def _quant_search(code: int) -> Kernel:
    def search(x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, zero: Tensor, epsilon: float) -> Any:
        y, _, x = npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
        return npu().npu_quantize.default(y, scales, zero, code, -1, True), x

    return search


def _quant_replace(
    x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, zero: Tensor, epsilon: float
) -> Any:
    fused = npu().npu_add_rms_norm_quant.default(
        x1, x2, gamma, scales, zero, axis=-1, epsilon=epsilon, div_mode=True
    )
    return fused[0], fused[2]


def _with_zero(function: Kernel, has_zero: bool) -> Kernel:
    return function if has_zero else with_fixed(function, zero=None)


def _quant_check(match: Match) -> str | None:
    x, gamma, scales = match.value("x1"), match.value("gamma"), match.value("scales")
    width = x.shape[-1]
    if x.dtype not in (torch.float16, torch.bfloat16):
        return f"the fused kernel takes 16 bits, x1 is {x.dtype}"
    if not isinstance(width, int):
        return "the size of the last axis is not known"
    if width * x.element_size() % _BLOCK:
        return f"a row has {width * x.element_size()} bytes, which {_BLOCK} does not divide"
    if gamma.shape != scales.shape:
        return f"gamma is {list(gamma.shape)}, the scales are {list(scales.shape)}"
    if "zero" in match.kwargs and match.value("zero") is None:
        return "there are no zero points"
    if "zero" in match.kwargs and match.value("zero").dtype in (torch.uint8, torch.int8):
        return f"the zero points are {match.value('zero').dtype}"
    return None


_QUANT: Final = ("npu::npu_quantize", "npu::npu_add_rms_norm_quant")
ROWS: Final = tuple(
    row
    for code in (1, 12)
    for has_zero in (False, True)
    for row in norm_rows(
        f"add_rms_norm_quant_{code}{'_zero' if has_zero else ''}",
        _with_zero(_quant_search(code), has_zero),
        _with_zero(_quant_replace, has_zero),
        (5, 64),
        (scale(), scale(torch.int32)) if has_zero else (scale(),),
        _quant_check,
        _QUANT,
    )
)
