"""Scalar vocabulary of Ascend IR: data types, formats, placements, attribute kinds; which operator types are inputs."""

from __future__ import annotations

from typing import Final

from air_geir.types._attr_kind import LIST_KINDS, AttrKind
from air_geir.types._dtype import DataType
from air_geir.types._format import Format, Placement

__all__ = ["INPUT_TYPES", "LIST_KINDS", "AttrKind", "DataType", "Format", "Placement"]

#: Operator types that are inputs of a graph.
INPUT_TYPES: Final = frozenset({"Data", "RefData"})
