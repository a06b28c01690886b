"""Control flow in reduce-overhead: captured where that can be, between captured pieces where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint


@pytest.fixture(params=["cpu", pytest.param("npu", marks=pytest.mark.npu)])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def branch(x: Tensor) -> Any:
    h = (x @ x).relu()
    return (torch.cond(h.sum() > 30, lambda t: t + 1, lambda t: t - 1, (h,)) @ x).sum(0)


def rounds(x: Tensor) -> Any:
    return while_loop(lambda a: a.sum() < 100, lambda a: (a * 2 + 1,), (x @ x,))[0].sin()


def size_of_a_branch(x: Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda t: t[:2] * 1, lambda t: t[:3] * 1, (x * 2,))
    return (x + 1) @ x.t(), y + 1


def counted(x: Tensor) -> Any:
    count, y = while_loop(lambda i, a: a.sum() < 100, lambda i, a: (i + 1, a * 2 + 1), (0, x + 1))
    return y * count, x @ x


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
@pytest.mark.parametrize("function", [branch, rounds, size_of_a_branch, counted])
def test_control_flow_is_decided_at_every_call(function: Callable[[Tensor], Any], device: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", options={"mode": "reduce-overhead"})
    for seed in range(4):
        torch.manual_seed(seed)
        x = (torch.randn(4, 4) + (1 if seed % 2 else -1)).to(device)
        for found, expected in zip(tree_leaves(compiled(x)), tree_leaves(function(x)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_a_checkpoint_drops_in_backward_what_it_dropped_in_forward(device: str) -> None:
    def dropped(x: Tensor) -> Any:
        return checkpoint(lambda t: torch.dropout(t.sin(), 0.5, True) * 2, x, use_reentrant=False)

    torch._dynamo.reset()
    compiled = torch.compile(dropped, backend="air", options={"mode": "reduce-overhead"})
    for _ in range(4):
        x = torch.randn(8, 8, device=device, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert x.grad is not None
        assert torch.equal(y == 0, x.grad == 0)
