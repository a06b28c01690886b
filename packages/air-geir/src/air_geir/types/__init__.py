"""Scalar vocabulary of Ascend IR: data types, formats, placements and attribute kinds."""

from __future__ import annotations

from air_geir.types._attr_kind import LIST_KINDS, AttrKind
from air_geir.types._dtype import DataType
from air_geir.types._format import Format, Placement

__all__ = ["LIST_KINDS", "AttrKind", "DataType", "Format", "Placement"]
