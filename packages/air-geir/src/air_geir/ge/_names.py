"""`DataType`, `Format` and `Tensor` as TorchAir's converters write them: `DataType.DT_FLOAT16`, `Format.FORMAT_ND`."""

from __future__ import annotations

import enum
from typing import Any

from air_geir import types
from air_geir.building import Value

DataType: Any = enum.IntEnum("DataType", {f"DT_{member.name}": member.api for member in types.DataType})  # type: ignore[misc]  # the members are those of another enum
Format: Any = enum.IntEnum("Format", {f"FORMAT_{member.name}": member.value for member in types.Format})  # type: ignore[misc]  # the members are those of another enum
DataType.__doc__ = "Data types under TorchAir's names, with the numbers of the engine's API."
Format.__doc__ = "Memory formats under TorchAir's names."
Tensor = Value

__all__ = ["DataType", "Format", "Tensor"]
