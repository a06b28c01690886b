"""Several graphs of one function are compiled beside each other, where an engine of a device compiles them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import _records
from air_config.errors import AirError

pytestmark = pytest.mark.npu("max-autotune does not serve CUDA tensors")


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="air", options={"mode": "max-autotune", **options})


def roles() -> list[str]:
    return [record.role for record, _ in _records.alive()]


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(4, 4).to("npu").requires_grad_()


def test_the_backward_is_compiled_beside_its_forward(weight: Tensor) -> None:
    def loss(x: Tensor) -> Tensor:
        return (x @ weight).relu().sum()

    x = torch.randn(3, 4).to("npu")
    value = compiled(loss)(x)
    assert roles() == ["forward", "backward"]
    torch.testing.assert_close(torch.autograd.grad(value, weight), torch.autograd.grad(loss(x), weight))
    assert roles() == ["forward", "backward"]


def test_a_backward_may_run_twice(weight: Tensor) -> None:
    loss = compiled(lambda x: (x @ weight).sin().sum())(torch.ones(3, 4).to("npu"))
    first, second = (torch.autograd.grad(loss, weight, retain_graph=True) for _ in range(2))
    torch.testing.assert_close(first, second)


def test_without_the_option_it_is_compiled_when_it_is_called(weight: Tensor) -> None:
    value = compiled(lambda x: (x @ weight).relu().sum(), **{"air.compile_ahead": False})(
        torch.ones(3, 4).to("npu")
    )
    assert roles() == ["forward"]
    value.backward()
    assert roles() == ["forward", "backward"]


class Refused(torch.autograd.Function):
    """A backward with an operator that nothing converts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return torch.ops.aten.special_airy_ai(gradient)


def test_a_backward_that_cannot_be_compiled_fails_where_it_is_called(weight: Tensor) -> None:
    apply: Any = Refused.apply
    call = compiled(lambda x: apply(x * weight).sum(), **{"air.unsupported": "error"})
    x = torch.ones(4, 4).to("npu")
    value = call(x)
    torch.testing.assert_close(value, (x * weight * 2).sum())
    with pytest.raises(AirError, match="special_airy_ai"):
        value.backward()


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_the_pieces_of_a_graph_are_compiled_beside_each_other(weight: Tensor) -> None:
    def function(x: Tensor) -> Tensor:
        y: Tensor = torch.special.airy_ai((x @ weight).cpu().relu()).to("npu")
        return (y @ weight).relu()

    x = torch.randn(3, 4).to("npu")
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x))
