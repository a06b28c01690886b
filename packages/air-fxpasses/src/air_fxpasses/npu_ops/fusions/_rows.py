"""What the rules share: how a rule becomes rows of the table, and what stands in a pattern for any epsilon."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import Kernel
from air_fxpasses.npu_cards.families.norms import EPSILON
from air_fxpasses.patterns import FusionPattern, Match

aten = torch.ops.aten
#: A number that occurs in no program: where it stands in a pattern, any number may stand in a graph.
_EPSILON: Final = {"epsilon": 2.0000123e-6}
_NORM: Final = "npu::npu_add_rms_norm"
ALIGNED: Final = 128


def npu() -> Any:
    """The operators of the wheel, or those that stand for them: a row is made before they are loaded."""
    return torch.ops.npu


def with_fixed(function: Kernel, **fixed: Any) -> Kernel:
    """`function` for calls that leave some parameters out: these have a value."""
    left = [p for p in inspect.signature(function).parameters.values() if p.name not in fixed]
    signature = inspect.Signature(left)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(**signature.bind(*args, **kwargs).arguments, **fixed)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def norm_rows(
    name: str,
    search: Kernel,
    replace: Kernel,
    size: Sequence[int],
    extra: Sequence[Callable[[], Tensor]] = (),
    check: Callable[[Match], str | None] | None = None,
    requires: tuple[str, ...] = (),
) -> tuple[FusionPattern, FusionPattern]:
    """A row for calls with an epsilon and a row for those without."""

    def inputs() -> tuple[Tensor, ...]:
        x, gamma = torch.empty(size, dtype=torch.float16), torch.empty(size[-1], dtype=torch.float16)
        return x, x.clone(), gamma, *(make() for make in extra)

    needed, found = (_NORM, *requires), frozenset((_NORM,))
    plain = with_fixed(search, epsilon=EPSILON), with_fixed(replace, epsilon=EPSILON)
    return (
        FusionPattern(name, search, replace, inputs, needed, _EPSILON, check, operators=found),
        FusionPattern(f"{name}_default_epsilon", *plain, inputs, needed, extra_check=check, operators=found),
    )


def bmm_row(name: str, search: Kernel, replace: Kernel, size: Sequence[int], check: Any) -> FusionPattern:
    """A row for a batched product."""

    def inputs() -> tuple[Tensor, ...]:
        return torch.empty(size), torch.empty(4, ALIGNED, ALIGNED)

    needed = ("npu::npu_transpose_batchmatmul",)
    return FusionPattern(
        name, search, replace, inputs, needed, extra_check=check, operators=frozenset(("aten::bmm",))
    )


def scale(dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    """Makes an example of one scale a column."""
    return lambda: torch.empty(64, dtype=dtype)
