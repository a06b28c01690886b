"""Norms whose order torch_npu computes with operators of the older interface."""

from __future__ import annotations

import math

import pytest
import torch

pytestmark = pytest.mark.npu


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, 3.5, math.inf, -math.inf])
@pytest.mark.parametrize("where", [None, 1, (0, 2)])
def test_a_norm_of_any_order_is_that_of_the_cpu(order: float, where: int | tuple[int, ...] | None) -> None:
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.norm(x.npu(), order, where).cpu(), torch.norm(x, order, where))


@pytest.mark.parametrize("order", [1.5, math.inf])
def test_a_norm_of_any_order_has_a_gradient(order: float) -> None:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        leaf = x.requires_grad_()
        torch.norm(leaf, order, 1).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.cpu()

    x = torch.randn(3, 4)
    torch.testing.assert_close(gradient(x.npu()), gradient(x.clone()))


@pytest.mark.parametrize("order", [1.0, 3.0, math.inf])
def test_gradients_are_clipped_by_a_norm_of_any_order(order: float) -> None:
    def clipped(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        leaves = [torch.randn(4, 4, device="cpu").to(device).requires_grad_() for _ in range(3)]
        for leaf in leaves:
            leaf.grad = leaf.detach() * 2
        total = torch.nn.utils.clip_grad_norm_(leaves, 0.5, norm_type=order)
        return [total.cpu(), *(leaf.grad.cpu() for leaf in leaves if leaf.grad is not None)]

    torch.testing.assert_close(clipped("npu"), clipped("cpu"))
