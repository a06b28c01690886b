"""Samples of converters as TorchAir writes them: `Support(F32(2, 2), 0.1)`. They are kept, and nothing calls them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

__all__ = ["BF16", "BOOL", "C64", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "Support", "T"]


class _TypedTensor:
    """A tensor of a type and of sizes."""

    dtype: ClassVar[torch.dtype | None] = None

    def __init__(self, *sizes: int, value_range: tuple[float, float] | None = None, **_: Any) -> None:
        self.sizes = sizes
        self.value_range = value_range


def _typed(name: str, dtype: torch.dtype | None) -> type[_TypedTensor]:
    return type(name, (_TypedTensor,), {"dtype": dtype, "__doc__": f"A tensor of {dtype}."})


F32 = _typed("F32", torch.float32)
F16 = _typed("F16", torch.float16)
BF16 = _typed("BF16", torch.bfloat16)
F64 = _typed("F64", torch.float64)
I64 = _typed("I64", torch.int64)
I32 = _typed("I32", torch.int32)
I16 = _typed("I16", torch.int16)
I8 = _typed("I8", torch.int8)
U8 = _typed("U8", torch.uint8)
C64 = _typed("C64", torch.complex64)
BOOL = _typed("BOOL", torch.bool)
T = _typed("T", None)


class Support:
    """One call of a converter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
