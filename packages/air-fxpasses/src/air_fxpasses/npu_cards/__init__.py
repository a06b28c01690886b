"""Cards: everything AIR knows about each `npu::` operator. Importing them declares nothing.

`npu_ops` declares the operators; tables, rules about padding, samples and converters to Ascend IR read the cards.
"""

from __future__ import annotations

from air_fxpasses.npu_cards._card import Kernel, NpuOp
from air_fxpasses.npu_cards._ir import (
    Count,
    Fixed,
    Ir,
    OrDefault,
    OrEmpty,
    OrSize,
    Respelled,
    Source,
    TypeOfResult,
)
from air_fxpasses.npu_cards._sample import Sample
from air_fxpasses.npu_cards._schemas import RECORDED_FROM, SCHEMAS
from air_fxpasses.npu_cards._table import find, operators, reference, row
from air_fxpasses.npu_cards.errors import NotAnNpuOperator, NotCovered

__all__ = [
    "RECORDED_FROM",
    "SCHEMAS",
    "Count",
    "Fixed",
    "Ir",
    "Kernel",
    "NotAnNpuOperator",
    "NotCovered",
    "NpuOp",
    "OrDefault",
    "OrEmpty",
    "OrSize",
    "Respelled",
    "Sample",
    "Source",
    "TypeOfResult",
    "find",
    "operators",
    "reference",
    "row",
]
