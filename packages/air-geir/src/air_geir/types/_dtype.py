"""Data types and their three numberings: the file's, the engine's, and torch's."""

from __future__ import annotations

import enum
from typing import TypeAlias

import torch

from air_geir.errors import DTypeError

TorchDType: TypeAlias = torch.dtype


class DataType(enum.Enum):
    """A data type of Ascend IR.

    The value of a member is its number in a file (`TensorDescriptor.dtype`). `api` is the number of the same type
    in attributes and at the boundary of an engine; the two numberings differ and are never mixed silently.
    """

    UNDEFINED = 0
    FLOAT = 1
    FLOAT16 = 2
    INT8 = 3
    UINT8 = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    INT64 = 8
    UINT32 = 9
    UINT64 = 10
    BOOL = 11
    DOUBLE = 12
    STRING = 13
    DUAL_SUB_INT8 = 14
    DUAL_SUB_UINT8 = 15
    COMPLEX64 = 16
    COMPLEX128 = 17
    QINT8 = 18
    QINT16 = 19
    QINT32 = 20
    QUINT8 = 21
    QUINT16 = 22
    RESOURCE = 23
    STRING_REF = 24
    DUAL = 25
    VARIANT = 26
    BF16 = 27
    INT4 = 28
    UINT1 = 29
    INT2 = 30
    UINT2 = 31
    COMPLEX32 = 32
    HIFLOAT8 = 33
    FLOAT8_E5M2 = 34
    FLOAT8_E4M3FN = 35
    FLOAT8_E8M0 = 36
    FLOAT6_E3M2 = 37
    FLOAT6_E2M3 = 38
    FLOAT4_E2M1 = 39
    FLOAT4_E1M2 = 40
    HIFLOAT4 = 41

    api: int
    """Number in the engine's numbering (`ge::DataType`)."""
    bits: int
    """Bits of one element; 0 when an element has no fixed size."""

    @property
    def torch(self) -> TorchDType:
        """The torch type that stores such elements."""
        found = _TO_TORCH.get(self)
        if found is None:
            raise DTypeError(
                f"data type {self.name} has no torch type",
                advice="keep the value inside the graph, or cast it to a type torch has before it leaves",
            )
        return found

    @property
    def has_torch(self) -> bool:
        """True when a torch tensor can hold such elements."""
        return self in _TO_TORCH

    @classmethod
    def of(cls, dtype: DataType | TorchDType) -> DataType:
        """The data type of a torch type."""
        if isinstance(dtype, DataType):
            return dtype
        found = _FROM_TORCH.get(dtype)
        if found is None:
            raise DTypeError(f"{dtype} has no Ascend IR data type", advice="cast the tensor before the graph")
        return found

    @classmethod
    def has(cls, dtype: TorchDType) -> bool:
        """Whether a torch type is one of Ascend IR."""
        return dtype in _FROM_TORCH

    @classmethod
    def from_api(cls, number: int) -> DataType:
        """The data type with this number in the engine's numbering."""
        found = _FROM_API.get(number)
        if found is None:
            raise DTypeError(
                f"{number} is not a data type in the engine's numbering (0 to 41)",
                advice="DataType.<NAME>.api gives the number of a type",
            )
        return found

    def nbytes(self, elements: int) -> int:
        """Bytes that `elements` densely packed elements take."""
        return (elements * self.bits + 7) // 8


_SAME_API = {
    "UINT64", "STRING", "DUAL_SUB_INT8", "DUAL_SUB_UINT8", "COMPLEX64", "COMPLEX128", "QINT8", "QINT16", "QINT32",
    "QUINT8", "QUINT16", "RESOURCE", "STRING_REF", "DUAL", "VARIANT", "BF16",
}  # fmt: skip
_OTHER_API = {
    "UNDEFINED": 28, "FLOAT": 0, "FLOAT16": 1, "INT8": 2, "UINT8": 4, "INT16": 6, "UINT16": 7, "INT32": 3,
    "INT64": 9, "UINT32": 8, "BOOL": 12, "DOUBLE": 11, "INT4": 29, "UINT1": 30, "INT2": 31, "UINT2": 32,
    "COMPLEX32": 33, "HIFLOAT8": 34, "FLOAT8_E5M2": 35, "FLOAT8_E4M3FN": 36, "FLOAT8_E8M0": 37, "FLOAT6_E3M2": 38,
    "FLOAT6_E2M3": 39, "FLOAT4_E2M1": 40, "FLOAT4_E1M2": 41, "HIFLOAT4": -1,
}  # fmt: skip
_BITS = {
    1: ("UINT1",),
    2: ("INT2", "UINT2"),
    4: ("INT4", "FLOAT4_E2M1", "FLOAT4_E1M2", "HIFLOAT4"),
    6: ("FLOAT6_E3M2", "FLOAT6_E2M3"),
    8: ("INT8", "UINT8", "BOOL", "DUAL_SUB_INT8", "DUAL_SUB_UINT8", "QINT8", "QUINT8", "HIFLOAT8", "FLOAT8_E5M2",
        "FLOAT8_E4M3FN", "FLOAT8_E8M0"),
    16: ("FLOAT16", "BF16", "INT16", "UINT16", "QINT16", "QUINT16"),
    32: ("FLOAT", "INT32", "UINT32", "QINT32", "COMPLEX32"),
    64: ("DOUBLE", "INT64", "UINT64", "COMPLEX64"),
    128: ("COMPLEX128",),
}  # fmt: skip

for _member in DataType:
    _member.api = _member.value if _member.name in _SAME_API else _OTHER_API[_member.name]
    _member.bits = next((bits for bits, names in _BITS.items() if _member.name in names), 0)

_FROM_API = {member.api: member for member in DataType if member.api >= 0}
_FROM_TORCH = {
    torch.float32: DataType.FLOAT,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BF16,
    torch.float64: DataType.DOUBLE,
    torch.int8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.int16: DataType.INT16,
    torch.uint16: DataType.UINT16,
    torch.int32: DataType.INT32,
    torch.uint32: DataType.UINT32,
    torch.int64: DataType.INT64,
    torch.uint64: DataType.UINT64,
    torch.bool: DataType.BOOL,
    torch.complex32: DataType.COMPLEX32,
    torch.complex64: DataType.COMPLEX64,
    torch.complex128: DataType.COMPLEX128,
    torch.qint8: DataType.QINT8,
    torch.quint8: DataType.QUINT8,
    torch.qint32: DataType.QINT32,
    torch.quint4x2: DataType.INT4,
    torch.float8_e5m2: DataType.FLOAT8_E5M2,
    torch.float8_e4m3fn: DataType.FLOAT8_E4M3FN,
    torch.float8_e8m0fnu: DataType.FLOAT8_E8M0,
}
_TO_TORCH = {
    **{member: dtype for dtype, member in _FROM_TORCH.items()},
    DataType.HIFLOAT8: torch.uint8,
    DataType.FLOAT4_E2M1: torch.uint8,
    DataType.FLOAT4_E1M2: torch.uint8,
}
