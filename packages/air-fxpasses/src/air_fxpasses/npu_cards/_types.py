"""Type codes of the operators: what a number (or a torch type) given as `dtype` means for a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from air_fxpasses.npu_cards.errors import NotCovered

INT4: Final = 285
HIFLOAT8: Final = 290
SHARED_EXPONENT: Final = 293
"""torch_npu's number of the exponents that scales share."""

#: torch's own numbers of its types, as far as the operators know them.
_CODES: Final = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    12: torch.qint8,
    13: torch.quint8,
    14: torch.qint32,
    15: torch.bfloat16,
    16: torch.quint4x2,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    44: torch.float8_e8m0fnu,
    291: torch.float8_e5m2,
    292: torch.float8_e4m3fn,
    SHARED_EXPONENT: torch.float8_e8m0fnu,
}

#: torch_npu's numbers of the types torch does not have; their bytes travel as `uint8`.
_FOREIGN: Final = {INT4: "int4", HIFLOAT8: "hifloat8", 296: "float4_e2m1fn_x2", 297: "float4_e1m2fn_x2"}

_STORED: Final = {
    torch.qint8: torch.int8,
    torch.quint8: torch.uint8,
    torch.qint32: torch.int32,
}

#: The largest value a symmetric quantisation maps to.
LARGEST: Final = {
    torch.int8: 127.0,
    torch.quint4x2: 7.0,
    torch.float8_e4m3fn: 448.0,
    torch.float8_e5m2: 57344.0,
}

Code = int | torch.dtype | None

FOUR_BITS: Final[Mapping[torch.dtype, Code]] = {torch.int32: INT4}
"""What integers stand for where eight values of four bits lie in each."""


def type_of(code: Code, otherwise: torch.dtype, operator: str) -> torch.dtype:
    """The type a code names: quantised types as the integers that hold them, `quint4x2` as itself."""
    if code is None:
        return otherwise
    if isinstance(code, torch.dtype):
        return _STORED.get(code, code)
    if code in _FOREIGN:
        raise NotCovered(operator, f"values of type torch_npu.{_FOREIGN[code]}")
    if code not in _CODES:
        raise NotCovered(operator, f"the type with number {code}")
    return _STORED.get(_CODES[code], _CODES[code])


def wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the precision that kernels compute in: 32 bits, or what the caller has beyond them."""
    return x if x.dtype == torch.float64 or x.is_complex() else x.to(torch.float32)
