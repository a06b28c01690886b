"""Values of attributes: typed, checked, and never guessed once a prototype says the kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from air_geir.errors import AttributeKindError
from air_geir.ir._desc import TensorDesc
from air_geir.types import AttrKind, DataType
from air_graph.files import raw_bytes

if TYPE_CHECKING:
    from air_geir.ir._graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """A constant: a description, and the tensor or the raw bytes that hold it."""

    desc: TensorDesc
    data: torch.Tensor | bytes

    @classmethod
    def of(cls, tensor: torch.Tensor, dtype: DataType | None = None) -> TensorValue:
        """A constant from a tensor; `dtype` names a type that torch stores in another (packed 4-bit floats)."""
        return cls(TensorDesc(dtype or DataType.of(tensor.dtype), tuple(tensor.shape)), tensor.detach())

    @property
    def nbytes(self) -> int:
        """Size of the dense contents."""
        return (
            len(self.data) if isinstance(self.data, bytes) else self.data.numel() * self.data.element_size()
        )

    def tobytes(self) -> bytes:
        """Dense row-major little-endian contents; a view contributes its own elements only."""
        if isinstance(self.data, bytes):
            return self.data
        with unset_fake_temporarily():
            return raw_bytes(self.data)

    def tensor(self) -> torch.Tensor:
        """The contents as a torch tensor."""
        if isinstance(self.data, torch.Tensor):
            return self.data
        dtype = self.desc.dtype.torch
        shape = [d for d in self.desc.shape or () if isinstance(d, int)]
        if not self.data:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.data), dtype=torch.uint8).view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True)
class Named:
    """A nested record of attributes with a name."""

    name: str
    attrs: Mapping[str, Attr]


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute: what kind of value it is, and the value (lists are tuples)."""

    kind: AttrKind
    value: Any
    raw: bytes = field(default=b"", compare=False, repr=False)
    """The attribute as it was read, when a file held more in it than kind and value; written back as it is."""

    @classmethod
    def of(cls, kind: AttrKind, value: object, *, where: str = "") -> Attr:
        """The value as an attribute of that kind, or an error saying what was given instead."""
        return cls(kind, _coerce(kind, value, where))

    @classmethod
    def guess(cls, value: object, *, where: str = "") -> Attr:
        """An attribute whose kind follows from the Python value; for attributes outside a prototype."""
        if isinstance(value, Attr):
            return value
        kind = _guess(value)
        if kind is None:
            raise AttributeKindError(
                f"no attribute kind fits {value!r}",
                where=where,
                advice="give an Attr(kind, value); the kind of an empty list cannot be guessed",
            )
        return cls.of(kind, value, where=where)

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, TensorValue):
            return f"<{value.desc}>"
        if isinstance(value, DataType):
            return value.name
        return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _as_int(value: object) -> int:
    """Integers; data types become their engine number, as `dst_type` and its like expect."""
    if isinstance(value, DataType):
        return value.api
    if isinstance(value, torch.dtype):
        return DataType.of(value).api
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise TypeError


def _as_float(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise TypeError


def _as_dtype(value: object) -> DataType:
    if isinstance(value, (DataType, torch.dtype)):
        return DataType.of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return DataType.from_api(value)
    raise TypeError


def _as_tensor(value: object) -> TensorValue:
    if isinstance(value, TensorValue):
        return value
    if isinstance(value, torch.Tensor):
        return TensorValue.of(value)
    raise TypeError


def _plain(*types: type) -> Any:
    def check(value: object) -> object:
        if isinstance(value, types):
            return value
        raise TypeError

    return check


def _as_graph(value: object) -> Graph:
    if type(value).__name__ == "Graph":
        return value  # type: ignore[return-value]  # the class lives above this module
    raise TypeError


_SCALARS = {
    AttrKind.INT: _as_int,
    AttrKind.FLOAT: _as_float,
    AttrKind.BOOL: _plain(bool),
    AttrKind.STR: _plain(str, bytes),
    AttrKind.BYTES: _plain(bytes),
    AttrKind.DTYPE: _as_dtype,
    AttrKind.TENSOR: _as_tensor,
    AttrKind.DESC: _plain(TensorDesc),
    AttrKind.GRAPH: _as_graph,
    AttrKind.NAMED: _plain(Named),
    AttrKind.EXPRESSION: _plain(bytes),
}


def _coerce(kind: AttrKind, value: object, where: str) -> object:
    element = kind.element
    if element is not None:
        if not isinstance(value, (list, tuple, torch.Size)):
            raise _wrong(kind, value, where)
        return tuple(_coerce(element, v, where) for v in value)
    try:
        return _SCALARS[kind](value)
    except TypeError:
        raise _wrong(kind, value, where) from None


def _wrong(kind: AttrKind, value: object, where: str) -> AttributeKindError:
    return AttributeKindError(
        f"{value!r} ({type(value).__name__}) is not a value of kind {kind.value}",
        where=where,
        advice=f"give a value of kind {kind.value}, or name another kind with Attr.of(AttrKind..., value)",
    )


_GUESSES: Sequence[tuple[type, AttrKind]] = (
    (bool, AttrKind.BOOL),
    (int, AttrKind.INT),
    (float, AttrKind.FLOAT),
    (str, AttrKind.STR),
    (bytes, AttrKind.BYTES),
    (DataType, AttrKind.DTYPE),
    (torch.dtype, AttrKind.DTYPE),
    (torch.Tensor, AttrKind.TENSOR),
    (TensorValue, AttrKind.TENSOR),
    (TensorDesc, AttrKind.DESC),
    (Named, AttrKind.NAMED),
)
_LIST_OF = {kind.element: kind for kind in AttrKind if kind.is_list}


def _guess(value: object) -> AttrKind | None:
    if isinstance(value, (list, tuple)):
        kinds = {_guess(v) for v in value}
        if kinds == {AttrKind.INT, AttrKind.FLOAT}:
            return AttrKind.LIST_FLOAT
        return _LIST_OF.get(kinds.pop()) if len(kinds) == 1 else None
    return next((kind for known, kind in _GUESSES if isinstance(value, known)), None)
