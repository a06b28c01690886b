"""Attribute values with their kind: `ge.attr.Int(1)`, `ge.attr.ListStr(["a"])`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from air_geir.ir import Attr
from air_geir.types import AttrKind


def _maker(kind: AttrKind) -> Callable[[Any], Attr]:
    def make(value: Any) -> Attr:
        return Attr.of(kind, value)

    make.__doc__ = f"An attribute value of the kind `{kind.value}`."
    return make


Int = _maker(AttrKind.INT)
Float = _maker(AttrKind.FLOAT)
Bool = _maker(AttrKind.BOOL)
Str = _maker(AttrKind.STR)
DataType = _maker(AttrKind.DTYPE)
ListInt = _maker(AttrKind.LIST_INT)
ListFloat = _maker(AttrKind.LIST_FLOAT)
ListBool = _maker(AttrKind.LIST_BOOL)
ListStr = _maker(AttrKind.LIST_STR)
ListDataType = _maker(AttrKind.LIST_DTYPE)
ListListInt = _maker(AttrKind.LIST_LIST_INT)
ListListFloat = _maker(AttrKind.LIST_LIST_FLOAT)

__all__ = [
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
]
