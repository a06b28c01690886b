"""Sample calls of an operator: what its tests run, and what a device can be compared on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

HALF: Final = torch.float16
F32: Final = torch.float32


@dataclass(frozen=True)
class Sample:
    """One call. Arguments are made again for each `Sample`, so kernels may write into them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    unspecified: tuple[int, ...] = ()
    """Results whose contents the device leaves open."""
    operator: str = ""
    """Whose call it is; the card fills it in."""

    @property
    def name(self) -> str:
        """What tells this call from the others."""
        return f"{self.operator}-{self.label}" if self.label else self.operator


class Draw:
    """Makes the tensors of samples: the same ones in every process."""

    def __init__(self) -> None:
        self._state = torch.Generator().manual_seed(0)

    def real(self, *size: int, dtype: torch.dtype = HALF) -> Tensor:
        """Numbers round zero."""
        return torch.randn(size, generator=self._state).to(dtype)

    def positive(self, *size: int, dtype: torch.dtype = HALF) -> Tensor:
        """Numbers from 0.5 to 1.5."""
        return (torch.rand(size, generator=self._state) + 0.5).to(dtype)

    def small(self, *size: int) -> Tensor:
        """Integers of 8 bits from -5 to 5."""
        return torch.randint(-5, 6, size, generator=self._state, dtype=torch.int8)


Calls = Callable[[Draw], Iterable[Sample]]
