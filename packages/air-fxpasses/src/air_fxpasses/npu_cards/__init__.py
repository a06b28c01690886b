"""Cards: everything AIR knows about each `npu::` operator. Importing them declares nothing.

`npu_ops` declares the operators; tables, rules about padding, samples and converters to Ascend IR read the cards.
"""

from __future__ import annotations

from air_fxpasses.npu_cards._card import Kernel, NpuOp
from air_fxpasses.npu_cards._ir import (
    Count,
    Fixed,
    InType,
    Ir,
    OrDefault,
    OrElse,
    OrEmpty,
    OrSize,
    PackedScale,
    ReadAs,
    Respelled,
    Source,
    ThreeInOne,
    TypeNumber,
    TypeOfResult,
    arguments_of,
)
from air_fxpasses.npu_cards._quantise import packed, packs_scale, unpacked_operand
from air_fxpasses.npu_cards._sample import Sample
from air_fxpasses.npu_cards._schemas import RECORDED_FROM, SCHEMAS
from air_fxpasses.npu_cards._table import find, operators, reference, row
from air_fxpasses.npu_cards._types import FOUR_BITS, HIFLOAT8, INT4, SHARED_EXPONENT, Code, type_of
from air_fxpasses.npu_cards.errors import NotAnNpuOperator, NotCovered

__all__ = [
    "FOUR_BITS",
    "HIFLOAT8",
    "INT4",
    "RECORDED_FROM",
    "SCHEMAS",
    "SHARED_EXPONENT",
    "Code",
    "Count",
    "Fixed",
    "InType",
    "Ir",
    "Kernel",
    "NotAnNpuOperator",
    "NotCovered",
    "NpuOp",
    "OrDefault",
    "OrElse",
    "OrEmpty",
    "OrSize",
    "PackedScale",
    "ReadAs",
    "Respelled",
    "Sample",
    "Source",
    "ThreeInOne",
    "TypeNumber",
    "TypeOfResult",
    "arguments_of",
    "find",
    "operators",
    "packed",
    "packs_scale",
    "reference",
    "row",
    "type_of",
    "unpacked_operand",
]
