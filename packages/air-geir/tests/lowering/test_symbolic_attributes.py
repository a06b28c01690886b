"""Attributes and sizes that Ascend IR cannot express are reported with their operator, and sizes need no operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call, compile_call


def drawn(x: Tensor, y: Tensor) -> Tensor:
    return torch.multinomial(x[0, 0], y.shape[0])


def enlarged(x: Tensor, y: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=1.7, mode="nearest")


@pytest.mark.parametrize(
    ("function", "operator", "reason"),
    [
        (drawn, "multinomial", "this one is a symbolic size"),
        (enlarged, "arange|_to_copy|mul|upsample|index", "no counterpart in Ascend IR"),
    ],
)
def test_a_size_that_cannot_be_expressed_is_reported_with_its_operator(
    function: Callable[..., Any], operator: str, reason: str
) -> None:
    with pytest.raises(UnsupportedGraphError, match=reason) as caught:
        check_call(function, (torch.rand(1, 3, 9, 7), torch.rand(5, 2)), {}, dynamic=True)
    assert any(name in one.target for one in caught.value.found for name in operator.split("|"))


def test_sizes_that_a_graph_asks_for_together_are_known_without_an_operator() -> None:
    check_call(torch.take_along_dim, (torch.rand(5, 7), torch.randint(5, (5, 7)), 0), {}, dynamic=True)


def test_an_axis_that_a_condition_holds_to_be_one_is_squeezed_as_torch_squeezes_it() -> None:
    """The second half of three rows: its size is an expression, of which torch has asked whether it is one."""

    def program(x: Tensor) -> Tensor:
        return x.chunk(2)[1].squeeze().std()

    x = torch.arange(18.0).reshape(3, 6)
    run, tensors = compile_call(program, (x,), {}, dynamic=True)
    torch.testing.assert_close(run(*tensors)[0], program(x))
