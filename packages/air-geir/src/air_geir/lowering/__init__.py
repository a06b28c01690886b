"""From an FX graph of ATen operators to an Ascend IR graph."""

from __future__ import annotations

from air_geir.lowering._decompose import Expansions, Table, writes_inside
from air_geir.lowering._faults import cannot_lower
from air_geir.lowering._program import lower, lower_program
from air_geir.lowering._source import source_of

__all__ = ["Expansions", "Table", "cannot_lower", "lower", "lower_program", "source_of", "writes_inside"]
