"""Storages that their owner empties, and fills again elsewhere, as FSDP does with parameters between their uses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable

SIZE = 9_000_000
"""Of tensors that the system gives memory of their own: one that is made next has the place of one that is gone."""


def first_rows(weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return (weight[:4] + x,)


def filled(value: float) -> Tensor:
    weight = torch.empty(SIZE)
    weight[:4] = value
    return weight


def test_N25_another_tensor_at_the_address_of_one_that_was_emptied_is_read() -> None:
    x, first = torch.ones(4), filled(1.0)
    run, place = executable(first_rows, first, x, static=[0]), first.data_ptr()
    for _ in range(2):
        torch.testing.assert_close(run(first, x)[0], first[:4] + x)
    first.untyped_storage().resize_(0)
    second = filled(2.0)
    if second.data_ptr() != place:
        pytest.skip("this system gives memory back at another place")
    torch.testing.assert_close(run(second, x)[0], second[:4] + x)
    first.untyped_storage().resize_(4 * SIZE)
    first[:4] = 3.0
    for weight in (second, first, second):
        torch.testing.assert_close(run(weight, x)[0], weight[:4] + x)


def test_N25_an_input_that_was_captured_and_emptied_is_no_memory_to_copy_another_one_to() -> None:
    x, first, second = torch.ones(4), torch.full((4,), 1.0), torch.full((4,), 2.0)
    run = executable(first_rows, first, x, static=[0])
    run(first, x)
    first.untyped_storage().resize_(0)
    del first
    for _ in range(2):
        torch.testing.assert_close(run(second, x)[0], second + x)
