"""Sample calls of an operator: the data a converter is proven with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class SampleTensor:
    """A tensor to be filled with reproducible numbers."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    permuted: tuple[int, ...] | None = None

    def make(self, generator: torch.Generator) -> torch.Tensor:
        """The tensor: uniform between the bounds (floats: -2 to 2 unless said, integers: -8 to 8, 0 to 8)."""
        low, high = self._bounds()
        if self.dtype == torch.bool:
            drawn = torch.randint(0, 2, self.shape, generator=generator).bool()
        elif self.dtype.is_floating_point or self.dtype.is_complex:
            real = torch.float64 if not self.dtype.is_complex else torch.complex128
            drawn = torch.rand(self.shape, generator=generator, dtype=real) * (high - low) + low
        else:
            drawn = torch.randint(int(low), int(high), self.shape, generator=generator)
        made = drawn.to(self.dtype)
        return made.permute(self.permuted) if self.permuted else made

    def _bounds(self) -> tuple[float, float]:
        if self.dtype.is_floating_point or self.dtype.is_complex:
            default = (-2.0, 2.0)
        else:
            default = (-8.0 if self.dtype.is_signed else 0.0, 8.0)
        return (default[0] if self.low is None else self.low, default[1] if self.high is None else self.high)


@dataclass(frozen=True, init=False)
class Sample:
    """One call: the operator's arguments, with `SampleTensor`s where tensors go."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "kwargs", kwargs)

    def make(self, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with real tensors; the same seed gives the same numbers."""
        generator = torch.Generator().manual_seed(seed)

        def fill(leaf: object) -> object:
            return leaf.make(generator) if isinstance(leaf, SampleTensor) else leaf

        args, kwargs = pytree.tree_map(
            fill, (self.args, self.kwargs), is_leaf=lambda leaf: isinstance(leaf, SampleTensor)
        )
        return args, kwargs


def _maker(dtype: torch.dtype) -> Callable[..., SampleTensor]:
    def make(*shape: int, low: float | None = None, high: float | None = None) -> SampleTensor:
        return SampleTensor(dtype, shape, low, high)

    return make


f16 = _maker(torch.float16)
bf16 = _maker(torch.bfloat16)
f32 = _maker(torch.float32)
f64 = _maker(torch.float64)
i8 = _maker(torch.int8)
i32 = _maker(torch.int32)
i64 = _maker(torch.int64)
u8 = _maker(torch.uint8)
c64 = _maker(torch.complex64)
boolean = _maker(torch.bool)
