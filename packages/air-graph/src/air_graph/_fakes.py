"""Calls with fake tensors, which have sizes and types and no memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor
from torch._subclasses import FakeTensor, FakeTensorMode


def fake_mode_of(args: Iterable[object]) -> FakeTensorMode | None:
    """The mode of the first fake tensor; None where all are real."""
    return next((value.fake_mode for value in args if isinstance(value, FakeTensor)), None)


def all_fake(args: Sequence[Any], mode: FakeTensorMode) -> list[Any]:
    """The arguments with each tensor as a fake one: an operator that takes one fake tensor takes no real ones."""
    real = (isinstance(value, Tensor) and not isinstance(value, FakeTensor) for value in args)
    return [mode.from_tensor(value) if one else value for one, value in zip(real, args, strict=True)]
