"""Losses whose gradient torch_npu computes itself: what is given back is what the CPU gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

pytestmark = pytest.mark.npu


def stepped(device: str, reduction: str) -> list[Tensor]:
    torch.manual_seed(0)
    first, second = (torch.randn(3, 4).to(device).requires_grad_() for _ in range(2))
    with torch.no_grad():
        second[0, 0] = first[0, 0]
    loss = F.l1_loss(first, second, reduction=reduction)
    loss.square().sum().backward()
    assert first.grad is not None
    assert second.grad is not None
    return [loss.detach().cpu(), first.grad.cpu(), second.grad.cpu()]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_gradient_of_a_difference_is_divided_for_a_mean(reduction: str) -> None:
    torch.testing.assert_close(stepped("npu", reduction), stepped("cpu", reduction))
