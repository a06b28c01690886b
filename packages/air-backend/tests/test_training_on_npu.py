"""A training step on an NPU, where torch_npu keeps products and attention as operators of its own."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from air_backend.errors import GraphSplit


class Attention(nn.Module):
    """Products of matrices alone: with and without a bias, of two batches, of a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
        self.direction = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.q(x) @ self.k(x).mT, -1)
        return (weights @ x @ self.direction).square().sum()


@pytest.mark.npu("only torch_npu keeps matmul and its gradient as one operator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_products_stay_in_the_graph(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Attention().to("npu", dtype)
    x = torch.randn(2, 3, 8).to("npu", dtype)
    step = torch.compile(model, backend="air", options={"mode": "max-autotune"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        step(x).backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x).backward()
    expected = [p.grad for p in model.parameters()]
    near = 5e-2 if dtype is torch.bfloat16 else 1e-5
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)
