"""Gradients of losses against the CPU, in each of their reductions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

pytestmark = pytest.mark.npu

Loss = Callable[[torch.Tensor, torch.Tensor, str], torch.Tensor]
WEIGHT, POSITIVE = torch.rand(5), torch.rand(5) + 0.5

LOSSES: dict[str, Loss] = {
    "l1": lambda x, y, how: F.l1_loss(x, y, reduction=how),
    "kl_div": lambda x, y, how: F.kl_div(x, y.softmax(-1), reduction=how),
    "kl_div of logarithms": lambda x, y, how: F.kl_div(x, y.log_softmax(-1), reduction=how, log_target=True),
    "cross entropy of logits": lambda x, y, how: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), reduction=how
    ),
    "weighted cross entropy of logits": lambda x, y, how: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), WEIGHT.to(x.device), reduction=how, pos_weight=POSITIVE.to(x.device)
    ),
}


def gradient(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, device: str) -> torch.Tensor:
    leaf = x.to(device).requires_grad_()
    loss(leaf).pow(2).sum().backward()
    assert leaf.grad is not None
    return leaf.grad.cpu()


@pytest.mark.parametrize("how", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_a_loss_is_that_of_the_cpu(name: str, how: str) -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    actual, expected = (
        gradient(lambda leaf: LOSSES[name](leaf, y.to(leaf.device), how), x, device)
        for device in ("npu", "cpu")
    )
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(), (4,), (3, 5)])
def test_the_gradient_of_log_sigmoid_needs_no_buffer(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(gradient(F.logsigmoid, x, "npu"), gradient(F.logsigmoid, x, "cpu"))
