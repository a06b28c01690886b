"""Scalar vocabulary of Ascend IR: data types, formats, placements and attribute kinds."""

from __future__ import annotations

from air_geir.types._attr_kind import AttrKind
from air_geir.types._dtype import DataType
from air_geir.types._format import Format, Placement

__all__ = ["AttrKind", "DataType", "Format", "Placement"]
