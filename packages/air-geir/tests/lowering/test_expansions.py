"""One expansion is not taken for that of another call."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from air_geir import compile_graph
from air_geir.errors import UnsupportedGraphError
from air_geir.proof import compile_call, trace


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


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 cannot trace such a copy")
def test_a_copy_of_a_view_that_the_layout_does_not_have_is_made() -> None:
    x = torch.arange(10.0).reshape(2, 5).t()
    run, tensors = compile_call(lambda x: torch.view_copy(x, (2, 5)) + 1, (x,), {})
    assert torch.equal(run(*tensors)[0], x.reshape(2, 5) + 1)


def test_a_decomposition_that_fails_leaves_the_operator_to_eager() -> None:
    def failing(*args: object, **kwargs: object) -> Tensor:
        raise ValueError("no such layout")

    gm = trace(lambda x: torch.hypot(x, x), (torch.ones(2),))
    table = {torch.ops.aten.hypot.default: failing}
    with pytest.raises(
        UnsupportedGraphError, match=r"decomposition of aten\.hypot\.default failed: no such layout"
    ):
        compile_graph(gm, [torch.ones(2)], engine="reference", decompositions=table)


def test_a_decomposition_that_gives_other_sizes_than_torch_states_leaves_the_operator_to_eager() -> None:
    gm = trace(lambda x: torch.hypot(x, x) * 2, (torch.ones(2, 3),))
    table = {torch.ops.aten.hypot.default: lambda x, y: x.sum(0)}
    with pytest.raises(UnsupportedGraphError, match=r"gives sizes \[3\], and torch states \[2, 3\]"):
        compile_graph(gm, [torch.ones(2, 3)], engine="reference", decompositions=table)
