"""A tensor while a graph is lowered: the value in the IR, and what torch knows about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from air_geir.ir import Dim, Port

Number: TypeAlias = "bool | int | float | complex | torch.SymInt | torch.SymFloat | torch.SymBool"
Size: TypeAlias = "int | torch.SymInt | Dim"


@dataclass(frozen=True, slots=True)
class Value:
    """What a converter gets and gives for a tensor."""

    port: Port
    dtype: torch.dtype
    shape: tuple[Dim, ...] | None = None
    """Sizes, expressions where they are not known; None when the rank is unknown."""

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The sizes; an error when the rank is unknown, which a converter's own arguments never are."""
        if self.shape is None:
            raise ValueError(f"the shape of {self.port.key} is not known")
        return self.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)

    def axis(self, dim: int) -> int:
        """An axis counted from the front; a negative one counts from the end."""
        return dim % self.rank if self.rank else 0

    @property
    def is_static(self) -> bool:
        """True when every size is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def is_float(self) -> bool:
        """True for floating-point types."""
        return self.dtype.is_floating_point

    @property
    def is_bool(self) -> bool:
        """True for booleans."""
        return self.dtype == torch.bool
