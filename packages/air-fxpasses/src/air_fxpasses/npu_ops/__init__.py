"""The `npu::` operators that language models use, for machines without torch_npu.

Importing this package declares them: schemas as in the torch_npu wheel, fake kernels that take symbolic
sizes, and kernels made of plain torch operators which run on a CPU (or wherever their arguments are).
With torch_npu loaded nothing is declared; `reference(name)` still gives the plain kernel to compare with.
The fusion patterns of these operators are registered at the same time.
"""

from __future__ import annotations

from air_fxpasses.npu_cards import (
    RECORDED_FROM,
    SCHEMAS,
    NotAnNpuOperator,
    NotCovered,
    NpuOp,
    arguments_of,
    operators,
    reference,
    row,
)
from air_fxpasses.npu_ops._declare import declare, declared, withdraw
from air_fxpasses.npu_ops.fusions import PATTERNS, register_fusions

__all__ = [
    "PATTERNS",
    "RECORDED_FROM",
    "SCHEMAS",
    "NotAnNpuOperator",
    "NotCovered",
    "NpuOp",
    "arguments_of",
    "declare",
    "declared",
    "operators",
    "reference",
    "register_fusions",
    "row",
    "withdraw",
]

declare()
register_fusions()
