"""A batched product with the first two axes of the left operand and of the result swapped: one operator."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from air_fxpasses.npu_ops.fusions._rows import aten, bmm_row, npu
from air_fxpasses.npu_ops.fusions._transpose_batchmatmul import LIMIT, bmm_check
from air_fxpasses.patterns import Match


def _both_search(x1: Tensor, x2: Tensor) -> Any:
    swapped = aten.transpose.int(x1, 0, 1)
    spread = aten.expand.default(swapped, [x1.shape[1], x1.shape[0], x1.shape[2]])
    return aten.transpose.int(aten.bmm.default(spread, x2), 0, 1)


def _both_plain_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(aten.transpose.int(x1, 0, 1), x2), 0, 1)


def _both_replace(x1: Tensor, x2: Tensor) -> Any:
    return npu().npu_transpose_batchmatmul.default(x1, x2, perm_x1=[1, 0, 2])


def _both_check(match: Match) -> str | None:
    x1 = match.value("x1")
    product = x1.shape[1] * x1.shape[2]
    if not 1 <= product < LIMIT:
        return f"batches times depth, {product}, is not between 1 and {LIMIT}"
    return bmm_check(match)


ROWS: Final = (
    bmm_row("transpose_both_batchmatmul_expanded", _both_search, _both_replace, (3, 4, 128), _both_check),
    bmm_row("transpose_both_batchmatmul", _both_plain_search, _both_replace, (3, 4, 128), _both_check),
)
