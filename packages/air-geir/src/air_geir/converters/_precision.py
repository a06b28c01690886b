"""Half precision as eager torch computes it: in 32 bits, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from air_geir.building import Context, Number, Value

_HALVES = (torch.float16, torch.bfloat16)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which several steps are computed whose result has this type."""
    return torch.float32 if dtype in _HALVES else dtype


def loses_digits(operand: Value | Number, dtype: torch.dtype) -> bool:
    """True when a number, or a single value of a wider type, is not the same in a result of half precision.

    Eager torch does not round them: `x * 0.3` multiplies by 0.3 and not by the nearest half.
    """
    if dtype not in _HALVES:
        return False
    if isinstance(operand, Value):
        return operand.shape == () and operand.is_float and operand.dtype not in (dtype, *_HALVES)
    if isinstance(operand, (int, float)):
        return operand == operand and float(torch.tensor(operand, dtype=dtype)) != float(operand)
    return isinstance(operand, (torch.SymInt, torch.SymFloat))


def fits_attribute(number: float, dtype: torch.dtype) -> bool:
    """True when nothing is lost in an attribute, which is a float of 32 bits."""
    if dtype in (*_HALVES, torch.float32) or number != number:
        return True
    return dtype == torch.float64 and float(torch.tensor(number, dtype=torch.float32)) == number


def attributes_must_fit(ctx: Context, *numbers: float, dtype: torch.dtype) -> None:
    """Leaves a call in double precision to its expansion, in which numbers are operands, if attributes cut them off."""
    if dtype == torch.float64 and not all(fits_attribute(float(number), dtype) for number in numbers):
        ctx.decompose()


def rounded_once(ctx: Context, steps: Callable[..., Value], *operands: Any, dtype: torch.dtype) -> Value:
    """What the steps make of the operands in the type they are computed in, in the type of the result."""
    return ctx.cast(steps(*ctx.promote(*operands, dtype=working_dtype(dtype))), dtype)
