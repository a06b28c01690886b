"""Operators over lists of tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_geir.proof import check_call

A, B = [torch.rand(2, 3) + 0.5, torch.rand(4) + 0.5], [torch.rand(2, 3) + 0.5, torch.rand(4) + 0.5]
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (torch._foreach_abs, (A,)),
    (torch._foreach_sqrt, (A,)),
    (torch._foreach_round, (A,)),
    (torch._foreach_sigmoid, (A,)),
    (torch._foreach_add, (A, B)),
    (torch._foreach_add, (A, 2.0)),
    (torch._foreach_add, (A, [2.0, 3.0])),
    (torch._foreach_sub, (A, B)),
    (torch._foreach_mul, (A, [2.0, 3.0])),
    (torch._foreach_div, (A, B)),
    (torch._foreach_maximum, (A, 0.9)),
    (torch._foreach_minimum, (A, B)),
    (torch._foreach_pow, (A, 2.0)),
    (torch._foreach_pow, (2.0, A)),
    (torch._foreach_addcmul, (A, B, B, 0.5)),
    (torch._foreach_addcdiv, (A, B, B, [0.5, 0.25])),
    (torch._foreach_lerp, (A, B, 0.3)),
    (torch._foreach_norm, (A, 1)),
    (torch.ops.aten._foreach_add.Tensor, (A, torch.tensor(2.0))),
    (torch._foreach_mul, (A, torch.tensor(2.0))),
    (torch._foreach_mul, (A, torch.tensor(2.0, dtype=torch.float64))),
    (torch._foreach_div, (A, torch.tensor(2))),
    (torch._foreach_div, ([torch.arange(4)], torch.tensor(2.0))),
    (torch.ops.aten._foreach_copy.default, (A, [torch.rand(3), torch.arange(4)])),
]


@pytest.mark.parametrize(
    ("function", "args"), CALLS, ids=[f"{f.__name__}{i}" for i, (f, _) in enumerate(CALLS)]
)
def test_a_list_operator_gives_what_eager_gives(function: Any, args: tuple[Any, ...]) -> None:
    check_call(function, args, {})
