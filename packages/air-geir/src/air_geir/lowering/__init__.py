"""From an FX graph of ATen operators to an Ascend IR graph."""

from __future__ import annotations

from air_geir.errors import CannotConvert, UnsupportedGraphError
from air_geir.lowering._context import Context, Number, Size, current_context
from air_geir.lowering._decompose import Expansions, Table, writes_inside
from air_geir.lowering._program import lower, lower_program
from air_geir.lowering._promote import computation_dtype, float_dtype
from air_geir.lowering._source import source_of
from air_geir.lowering._value import Value

__all__ = [
    "CannotConvert",
    "Context",
    "Expansions",
    "Number",
    "Size",
    "Table",
    "UnsupportedGraphError",
    "Value",
    "computation_dtype",
    "current_context",
    "float_dtype",
    "lower",
    "lower_program",
    "source_of",
    "writes_inside",
]
