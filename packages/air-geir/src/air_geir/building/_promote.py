"""Torch's rules for the type an elementwise operator computes in."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from air_geir.building._value import Value

Operand = object
"""A `Value`, or a Python or symbolic number."""


def computation_dtype(operands: Iterable[Operand]) -> torch.dtype:
    """The common type: tensors with axes decide, then single values, then numbers, each only in a higher category."""
    ranked: tuple[list[torch.dtype], list[torch.dtype], list[torch.dtype]] = ([], [], [])
    for operand in operands:
        if isinstance(operand, Value):
            ranked[0 if operand.shape is None or operand.shape else 1].append(operand.dtype)
        else:
            ranked[2].append(_number_dtype(operand))
    result: torch.dtype | None = None
    for dtypes in ranked:
        if not dtypes:
            continue
        here = dtypes[0]
        for dtype in dtypes[1:]:
            here = torch.promote_types(here, dtype)
        if result is None:
            result = here
        elif _category(here) > _category(result):
            result = _raise(result, here)
    return result if result is not None else torch.get_default_dtype()


def float_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type itself when it has fractions, else the default one."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


def _number_dtype(number: object) -> torch.dtype:
    if isinstance(number, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(number, (int, torch.SymInt)):
        return torch.int64
    if isinstance(number, complex):
        return torch.complex64
    return torch.get_default_dtype()


def _category(dtype: torch.dtype) -> int:
    if dtype == torch.bool:
        return 0
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 1


def _raise(low: torch.dtype, high: torch.dtype) -> torch.dtype:
    if high.is_complex and low.is_floating_point:
        return torch.promote_types(low, torch.complex32) if low != torch.float64 else torch.complex128
    return high
