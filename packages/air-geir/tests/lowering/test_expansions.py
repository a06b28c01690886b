"""One expansion is not taken for that of another call."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.proof import compile_call


def test_an_operator_that_was_given_one_tensor_twice_says_nothing_of_one_that_is_given_two() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        first, second = torch._foreach_mul([x, x], [x, y])
        ones = torch.ones_like(first)
        third, fourth = torch._foreach_mul([x, second], [ones, first])
        return third, fourth

    x, y = torch.tensor([3, 2, 0, 5]), torch.arange(4)
    run, tensors = compile_call(program, (x, y), {})
    for found, expected in zip(run(*tensors), program(x, y), strict=True):
        assert torch.equal(found, expected)
