"""Whether results differ from eager's by rounding alone: the same model in double precision decides.

A model that sums a lot is itself further from the exact result than two ways to compute it may be from each other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only

from zoo.made import Made

EAGER_AT_MOST: Final = 1e-3
"""So far eager may be from the exact result, as a part of the largest value; beyond that nothing is known."""
TIMES_AS_FAR: Final = 2.0
"""So much further than eager another way may be."""
Off = Callable[[Tensor, Tensor], float]
"""How far a tensor is from another one, as a part of the largest value of that."""


def doubled(made: Made) -> Made:
    """The model in double precision, called with the same numbers."""
    return Made(copy.deepcopy(made.model).double(), lambda: in_double(made.inputs()), made.made_of)


def in_double(tree: Any) -> Any:
    return tree_map_only(Tensor, lambda value: value.double() if value.is_floating_point() else value, tree)


def explained(exact: Any, wanted: Any, found: Any, off: Off, enough: float) -> str | None:
    """How far eager's results and others are from the exact ones; None where rounding does not explain the others."""
    flat, specs = zip(*map(tree_flatten, (exact, wanted, found)), strict=True)
    if any(spec != specs[0] for spec in specs):
        return None
    distances = [_distances(true, want, got, off) for true, want, got in zip(*flat, strict=True)]
    told = [pair for pair in distances if pair and pair[0] <= EAGER_AT_MOST]
    if len(told) < len(distances) or any(b > max(enough, TIMES_AS_FAR * a) for a, b in told):
        return None
    eager, other = (max(values) for values in zip(*told, strict=True))
    return f"by rounding: eager is {eager:.2g} of the largest value from double precision, this {other:.2g}"


def _distances(true: Any, want: Any, got: Any, off: Off) -> tuple[float, float] | None:
    """How far eager's value and the other one are from the exact one; None where they cannot be compared."""
    if not isinstance(want, Tensor) or not want.is_floating_point():
        return (0.0, 0.0) if _equal(want, got) else None
    comparable = (
        isinstance(got, Tensor)
        and isinstance(true, Tensor)
        and (want.shape, want.dtype) == (got.shape, got.dtype)
        and want.shape == true.shape
        and all(bool(each.isfinite().all()) for each in (true, want, got))
    )
    if not comparable:
        return None
    return (off(true, want), off(true, got)) if want.numel() else (0.0, 0.0)


def _equal(want: Any, got: Any) -> bool:
    if isinstance(want, Tensor):
        return isinstance(got, Tensor) and want.dtype == got.dtype and torch.equal(want, got)
    return type(want) is type(got) and (not isinstance(want, (bool, int, float, str)) or want == got)
