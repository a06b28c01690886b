"""Kinds of attribute values, with their field in the file and their spelling in prototypes."""

from __future__ import annotations

import enum


class AttrKind(enum.Enum):
    """What a value of an attribute is; the value of the member is its spelling in a prototype."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    BYTES = "bytes"
    DTYPE = "dtype"
    TENSOR = "tensor"
    DESC = "desc"
    GRAPH = "graph"
    NAMED = "named"
    EXPRESSION = "expression"
    LIST_INT = "ints"
    LIST_FLOAT = "floats"
    LIST_BOOL = "bools"
    LIST_STR = "strs"
    LIST_BYTES = "byteses"
    LIST_DTYPE = "dtypes"
    LIST_TENSOR = "tensors"
    LIST_DESC = "descs"
    LIST_GRAPH = "graphs"
    LIST_NAMED = "nameds"
    LIST_LIST_INT = "intss"
    LIST_LIST_FLOAT = "floatss"

    @property
    def element(self) -> AttrKind | None:
        """The kind of one element when this is a list, else None."""
        return _ELEMENT.get(self)

    @property
    def is_list(self) -> bool:
        """True for flat and nested lists."""
        return self in _ELEMENT

    @property
    def field(self) -> str:
        """The field of the file's message that holds such a value."""
        return _FIELDS.get(self, "list")

    @property
    def element_field(self) -> str:
        """The field of a list's message that holds elements of this kind."""
        return "na" if self is AttrKind.NAMED else self.field


_ELEMENT = {
    AttrKind.LIST_STR: AttrKind.STR,
    AttrKind.LIST_INT: AttrKind.INT,
    AttrKind.LIST_FLOAT: AttrKind.FLOAT,
    AttrKind.LIST_BOOL: AttrKind.BOOL,
    AttrKind.LIST_BYTES: AttrKind.BYTES,
    AttrKind.LIST_DESC: AttrKind.DESC,
    AttrKind.LIST_TENSOR: AttrKind.TENSOR,
    AttrKind.LIST_GRAPH: AttrKind.GRAPH,
    AttrKind.LIST_NAMED: AttrKind.NAMED,
    AttrKind.LIST_DTYPE: AttrKind.DTYPE,
    AttrKind.LIST_LIST_INT: AttrKind.LIST_INT,
    AttrKind.LIST_LIST_FLOAT: AttrKind.LIST_FLOAT,
}
LIST_KINDS = {number: kind for number, kind in enumerate(_ELEMENT, 1) if number <= 10}
"""The number by which a list in a file says what it holds; the loader drops a list without it."""
_FIELDS = {
    AttrKind.STR: "s",
    AttrKind.INT: "i",
    AttrKind.FLOAT: "f",
    AttrKind.BOOL: "b",
    AttrKind.BYTES: "bt",
    AttrKind.DESC: "td",
    AttrKind.TENSOR: "t",
    AttrKind.GRAPH: "g",
    AttrKind.NAMED: "func",
    AttrKind.DTYPE: "dt",
    AttrKind.EXPRESSION: "expression",
    AttrKind.LIST_LIST_INT: "list_list_int",
    AttrKind.LIST_LIST_FLOAT: "list_list_float",
}
