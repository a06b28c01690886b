"""Casts between types, and between memory formats.

A format such as NZ changes where elements lie on the device and nothing a program can see. On other devices
a tensor has one format: these operators return the values in it.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import Code, type_of
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding._by_rows import by_rows


def dtype_cast(input: Tensor, dtype: Code, input_dtype: Code = None) -> Tensor:
    """`input` in another type."""
    _plain("npu_dtype_cast", input_dtype)
    target = type_of(dtype, input.dtype, "npu_dtype_cast")
    return input.to(target, copy=True, memory_format=torch.contiguous_format)


def dtype_cast_backward(
    grad: Tensor, dtype: Code, grad_dtype: Code = None, input_dtype: Code = None
) -> Tensor:
    """The gradient of a cast: `grad` in the type that was cast from."""
    _plain("npu_dtype_cast_backward", grad_dtype)
    return dtype_cast(grad, dtype, input_dtype)


def format_cast(
    input: Tensor, acl_format: int, *, customize_dtype: Code = None, input_dtype: Code = None
) -> Tensor:
    """The values of `input`, laid out one row after the other."""
    _plain("npu_format_cast", customize_dtype, input_dtype)
    return input.clone(memory_format=torch.contiguous_format)


def format_cast_as(
    input: Tensor, dst: Tensor, *, customize_dtype: Code = None, input_dtype: Code = None
) -> Tensor:
    """The values of `input` in the format of `dst`."""
    return format_cast(input, 2, customize_dtype=customize_dtype, input_dtype=input_dtype)


def format_cast_(
    input: Tensor, acl_format: int, *, customize_dtype: Code = None, input_dtype: Code = None
) -> Tensor:
    """`input` itself."""
    _plain("npu_format_cast_", customize_dtype, input_dtype)
    return input


def format_cast_as_(
    input: Tensor, src: Tensor, *, customize_dtype: Code = None, input_dtype: Code = None
) -> Tensor:
    """Writes the values of `src` into `input`, which keeps its format."""
    _plain("npu_format_cast_", customize_dtype, input_dtype)
    return input.copy_(src)


def _plain(operator: str, *types: Code) -> None:
    if any(code is not None for code in types):
        raise NotCovered(operator, "values stored as another type (customize_dtype, input_dtype)")


def _to_float(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(4, 32), F32))]


def _to_format(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(4, 32), 2))]


def _to_that_of(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(4, 32), draw.real(4, 32)))]


OPS: Final = (
    NpuOp("npu_dtype_cast", dtype_cast, _to_float, padding=by_rows("input", mixed=0)),
    NpuOp("_npu_dtype_cast", dtype_cast, _to_float, padding=by_rows("input", mixed=0)),
    NpuOp("npu_dtype_cast_backward", dtype_cast_backward, _to_float, padding=by_rows("grad", mixed=0)),
    NpuOp("_npu_dtype_cast_backward", dtype_cast_backward, _to_float, padding=by_rows("grad", mixed=0)),
    NpuOp("npu_format_cast", format_cast, _to_format),
    NpuOp("npu_format_cast.Tensor", format_cast_as, _to_that_of),
    NpuOp("npu_format_cast_.acl_format", format_cast_, _to_format, functional="npu_format_cast"),
    NpuOp("npu_format_cast_", format_cast_as_, _to_that_of),
)
