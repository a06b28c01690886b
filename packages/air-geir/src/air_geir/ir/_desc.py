"""Descriptions of tensors: type, shape, format, place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from air_geir.ir._expr import Dim, Expr
from air_geir.ir._sympy import as_dim
from air_geir.types import DataType, Format, Placement


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """What is known about a tensor before the graph runs. Immutable: nodes share one description.

    A shape of `None` means the rank is unknown; a dim that is an expression is unknown until run time.
    """

    dtype: DataType = DataType.UNDEFINED
    shape: tuple[Dim, ...] | None = None
    format: Format = Format.ND
    origin_format: Format | None = None
    """The framework's format, when the storage format differs from it."""
    origin_shape: tuple[int, ...] | None = None
    """The framework's shape, when the storage shape differs from it."""
    placement: Placement | None = None

    @classmethod
    def of(cls, tensor: torch.Tensor, *, placement: Placement | None = None) -> TensorDesc:
        """The description of a tensor, real or fake; symbolic sizes become expressions."""
        return cls(DataType.of(tensor.dtype), tuple(as_dim(s) for s in tensor.shape), placement=placement)

    @classmethod
    def unknown(cls) -> TensorDesc:
        """The description of which nothing is known: the engine infers it."""
        return _UNKNOWN

    @property
    def rank(self) -> int | None:
        """Number of dims, None when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """True when every size is a number."""
        return self.shape is not None and not any(isinstance(d, Expr) for d in self.shape)

    @property
    def numel(self) -> int | None:
        """Number of elements, None unless the shape is static."""
        sizes = [d for d in self.shape or () if isinstance(d, int)]
        return math.prod(sizes) if self.shape is not None and len(sizes) == len(self.shape) else None

    def file_shape(self) -> tuple[int, ...]:
        """The shape as files spell it: -1 for an unknown dim, (-2,) for an unknown rank."""
        if self.shape is None:
            return (-2,)
        return tuple(-1 if isinstance(d, Expr) else d for d in self.shape)

    def with_dtype(self, dtype: DataType) -> TensorDesc:
        """The same description with another type."""
        return self if dtype is self.dtype else replace(self, dtype=dtype)

    def with_shape(self, shape: Sequence[Dim] | None) -> TensorDesc:
        """The same description with another shape."""
        return replace(self, shape=None if shape is None else tuple(shape))

    def with_format(self, format: Format) -> TensorDesc:
        """The same description in another format."""
        return self if format is self.format else replace(self, format=format)

    def __str__(self) -> str:
        shape = "?" if self.shape is None else "[" + ", ".join(map(str, self.shape)) + "]"
        layout = "" if self.format is Format.ND else f" {self.format.name}"
        return f"{self.dtype.name}{shape}{layout}"


_UNKNOWN = TensorDesc()
