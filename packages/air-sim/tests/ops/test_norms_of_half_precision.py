"""Normalisations of half precision: their statistics are in single precision, their weights in either."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.npu

NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: nn.LayerNorm(5),
    "layer without weights": lambda: nn.LayerNorm(5, elementwise_affine=False),
    "batch": lambda: nn.BatchNorm2d(4),
    "batch without weights": lambda: nn.BatchNorm2d(4, affine=False),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True),
    "group": lambda: nn.GroupNorm(2, 4),
}


def step(name: str, device: str, dtype: torch.dtype, weights: torch.dtype, train: bool) -> list[Tensor]:
    torch.manual_seed(0)
    module = NORMS[name]().train(train)
    for parameter in module.parameters():
        nn.init.uniform_(parameter)
    module.to(device, weights)
    x = torch.randn(2, 4, 5, 5).to(device, dtype).requires_grad_()
    result = module(x)
    (result * torch.arange(5, device=device)).square().sum().backward()
    read = [x, *module.parameters()]
    return [result.detach().cpu(), *(one.grad.cpu() for one in read if one.grad is not None)]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("weights", [torch.float32, None], ids=["wide weights", "its weights"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_half_precision_trains(
    name: str, dtype: torch.dtype, weights: torch.dtype | None, train: bool
) -> None:
    if name == "instance" and weights:
        pytest.skip("torch takes weights of its type alone")
    found = step(name, "npu", dtype, weights or dtype, train)
    expected = step(name, "cpu", torch.float32, torch.float32, train)
    near = 0.05 if dtype is torch.bfloat16 else 0.01
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=near, atol=near * float(other.abs().max()))
