"""A batched product whose first two axes are swapped: one operator."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops.fusions._rows import ALIGNED, aten, bmm_row, npu
from air_fxpasses.patterns import Match

LIMIT: Final = 65536


def _bmm_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(x1, x2), 0, 1)


def _bmm_reversed_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(x1, x2), 1, 0)


def _bmm_permuted_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.permute.default(aten.bmm.default(x1, x2), [1, 0, 2])


def _bmm_replace(x1: Tensor, x2: Tensor) -> Any:
    return npu().npu_transpose_batchmatmul.default(x1, x2, perm_x1=[0, 1, 2])


def bmm_check(match: Match) -> str | None:
    """Why the fused kernel cannot compute this product."""
    x1, x2 = match.value("x1"), match.value("x2")
    if x1.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"the fused kernel does not take {x1.dtype}"
    for name, size in (("the depth", x1.shape[-1]), ("the number of columns", x2.shape[-1])):
        if size % ALIGNED:
            return f"{name}, {size}, is not a multiple of {ALIGNED}"
    return None if x1.shape[-1] < LIMIT else f"the depth, {x1.shape[-1]}, is not below {LIMIT}"


ROWS: Final = (
    bmm_row("transpose_batchmatmul", _bmm_search, _bmm_replace, (4, 3, 128), bmm_check),
    bmm_row("transpose_batchmatmul_reversed", _bmm_reversed_search, _bmm_replace, (4, 3, 128), bmm_check),
    bmm_row("transpose_batchmatmul_permuted", _bmm_permuted_search, _bmm_replace, (4, 3, 128), bmm_check),
)
