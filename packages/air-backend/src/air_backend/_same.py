"""Whether a compiled function gives what eager gives, value by value: of numbers up to rounding, else by `==`."""

from __future__ import annotations

import enum
import math
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

import torch
from torch import Tensor
from torch.testing._comparison import default_tolerances

from air_backend.errors import CannotCompare

#: There is one object of each value: another object is another value.
_ONE_EACH: Final = (
    torch.dtype,
    torch.layout,
    torch.memory_format,
    type,
    enum.Enum,
    ModuleType,
    BuiltinFunctionType,
)


#: The type of the tensors that torch compares numbers of Python as.
_COMPARED_AS: Final = (
    (bool, torch.bool),
    (int, torch.int64),
    (float, torch.float64),
    (complex, torch.complex128),
)


def refuse_no_calls(calls: int) -> None:
    if calls < 1:
        raise ValueError(f"calls is {calls}: at least one call is needed to compare anything")


def refuse_no_tolerance(**tolerances: float | None) -> None:
    for name, value in tolerances.items():
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} is {value}: a tolerance is a number from 0 up")


def _both(got: Any, wanted: Any, rtol: float | None, atol: float | None) -> tuple[float | None, float | None]:
    """torch takes both tolerances or none: the one that is not given is its default for the types."""
    if (rtol is None) == (atol is None):
        return rtol, atol
    usual_rtol, usual_atol = default_tolerances(_compared_as(got), _compared_as(wanted))
    return usual_rtol if rtol is None else rtol, usual_atol if atol is None else atol


def _compared_as(value: Any) -> torch.dtype:
    if isinstance(value, Tensor):
        return value.dtype
    kinds = (dtype for kind, dtype in _COMPARED_AS if isinstance(value, kind))
    return next(kinds, None) or torch.as_tensor(value).dtype  # an array


def assert_same(
    got: Any, wanted: Any, rtol: float | None, atol: float | None, *, exact: bool = False
) -> None:
    """Raises an `AssertionError` where two leaves of results differ, and `CannotCompare` where none can tell.

    With `exact` tensors have the same strides, and numbers of Python are equal.
    """
    kind = _kind(wanted)
    if exact and kind == "number":
        if wanted != got:
            raise AssertionError(f"eager gives {wanted!r}, compiled gives {got!r}")
    elif kind == _kind(got) != "object":
        rtol, atol = _both(got, wanted, rtol, atol)
        torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol, equal_nan=True, check_stride=exact)
    elif kind != _kind(got) or _differ(wanted, got):
        raise AssertionError(f"eager gives {wanted!r}, compiled gives {got!r}")


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "tensor"
    if isinstance(value, (int, float, complex)):
        return "number"
    return "array" if hasattr(type(value), "__array__") else "object"


def _differ(wanted: Any, got: Any) -> bool:
    if wanted is got:
        return False
    alike = type(wanted) is type(got) and not isinstance(wanted, _ONE_EACH)
    if alike and not any("__eq__" in vars(cls) for cls in type(wanted).__mro__[:-1]):
        raise CannotCompare(type(wanted).__qualname__, "its class has no `==` of its own")
    try:
        return bool(wanted != got)
    except Exception as error:  # whatever the `==` of a user's class raises
        raise CannotCompare(type(wanted).__qualname__, f"its `==` raises {type(error).__name__}") from error
