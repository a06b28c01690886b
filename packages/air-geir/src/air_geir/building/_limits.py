"""Python numbers in the types of tensors: what wraps round, and what torch refuses."""

from __future__ import annotations

import math
from typing import Any

import torch


def fitting(number: Any, dtype: torch.dtype) -> Any:
    """A Python number as its type takes it: integers lose their fraction and wrap round, as in torch."""
    if dtype == torch.bool:
        return bool(number)
    if dtype.is_floating_point or dtype.is_complex:
        return number
    limits = torch.iinfo(dtype)
    return (int(number) - limits.min) % (1 << limits.bits) + limits.min


def outside(number: object, dtype: torch.dtype) -> bool:
    """True for a Python number that torch does not convert to the type ("without overflow")."""
    if dtype == torch.bool or not isinstance(number, (int, float, complex)):
        return False
    if isinstance(number, complex):
        lost = bool(number.imag) and not dtype.is_complex
        return lost or outside(number.real, dtype) or outside(number.imag, dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return math.isfinite(number) and abs(number) > torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    wraps = limits.min == 0 and isinstance(number, int)  # torch lets a negative one stand for its complement
    return not (-limits.max if wraps else limits.min) <= number <= limits.max
