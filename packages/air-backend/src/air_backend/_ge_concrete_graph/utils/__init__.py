"""`dtype_promote`, which converters bring their operands to one type with."""

from __future__ import annotations

from typing import Any

from air_geir.building import Value
from air_geir.ge import Cast, Const

__all__ = ["dtype_promote"]


def dtype_promote(*tensors: Any, target_dtype: Any) -> Any:
    """Each operand in the type; numbers become constants, None stays. One operand is given back alone."""
    promoted = [_promoted(tensor, target_dtype) for tensor in tensors]
    return promoted[0] if len(promoted) == 1 else promoted


def _promoted(tensor: Any, dtype: Any) -> Any:
    if tensor is None:
        return None
    return Cast(tensor, dst_type=dtype) if isinstance(tensor, Value) else Const(tensor, dtype)
