"""What differs between the result of an operator and what torch says of it is found, by operator and kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from air_graph.testing.stated import StatedOtherwise


@torch.library.custom_op("air_stated::op", mutates_args=())
def op(x: Tensor, how: str) -> Tensor:
    return {"shape": x[:1], "dtype": x.double(), "strides": x.t().contiguous().t(), "": x}[how].clone()


@op.register_fake
def _(x: Tensor, how: str) -> Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("how", ["shape", "dtype", "strides"])
def test_what_a_fake_kernel_says_wrongly_is_found(how: str) -> None:
    with StatedOtherwise() as seen:
        op(torch.ones(3, 4), how)
        op(torch.ones(3, 4), "")
    assert seen.found == {"air_stated::op": {how}}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.t(),  # a view lies in the memory of its operand
        lambda x: x.add_(1),
        lambda x: torch.rand_like(x),
        lambda x: x.nonzero(),  # how many there are depends on the data
        lambda x: op(x, ""),
    ],
)
def test_what_torch_says_rightly_or_not_at_all_is_not(call: Callable[[Tensor], object]) -> None:
    with StatedOtherwise() as seen:
        call(torch.ones(3, 4))
    assert not seen.found


def test_results_of_another_device_are_not_compared() -> None:
    with StatedOtherwise("npu") as seen:
        op(torch.ones(3, 4), "dtype")
    assert seen.asked
    assert not seen.found
