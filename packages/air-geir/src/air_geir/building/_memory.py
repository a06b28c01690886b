"""What a converter may ask about the memory behind a value; the lowering knows the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from air_geir.building._value import Size, Value
from air_geir.ir import Dim


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a storage, element after element."""

    elements: Value
    start: Dim
    """Which element of the storage the first one is."""
    offset: Dim
    """Which element of the storage the first of the operand is."""


class Memory(Protocol):
    """The memory of the first argument of the call that is being converted."""

    like: torch.Tensor
    """Torch's description of that argument."""

    def strided(self, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Value:
        """The elements of the memory at these strides, as a dense value."""

    def window(self, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Window:
        """A copy of the memory that covers the operand and the elements at these strides, as torch copies it."""

    @property
    def is_expanded(self) -> bool:
        """Whether several elements of the operand surely share one address."""

    def pick(self, flat: Value, size: Sequence[Size], stride: Sequence[Size], start: Dim) -> Value:
        """Elements of a flat value by strides."""
