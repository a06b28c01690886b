"""What a converter builds with: values in, operators of an Ascend IR graph out."""

from __future__ import annotations

from air_geir.building._context import Context, UseDecomposition, current_context
from air_geir.building._infer import broadcast
from air_geir.building._promote import computation_dtype, float_dtype
from air_geir.building._value import Number, Size, Value

__all__ = [
    "Context",
    "Number",
    "Size",
    "UseDecomposition",
    "Value",
    "broadcast",
    "computation_dtype",
    "current_context",
    "float_dtype",
]
