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


@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3, 4)])
def test_labels_of_32_bits_are_labels(shape: tuple[int, ...]) -> None:
    x, labels = torch.randn(shape), torch.randint(0, 5, (shape[0], *shape[2:]))
    on_host, on_device = x.clone().requires_grad_(), x.to("npu").requires_grad_()
    expected, found = F.cross_entropy(on_host, labels), F.cross_entropy(on_device, labels.int().to("npu"))
    expected.backward()
    found.backward()
    torch.testing.assert_close(found.cpu(), expected)
    assert on_device.grad is not None
    torch.testing.assert_close(on_device.grad.cpu(), on_host.grad)
