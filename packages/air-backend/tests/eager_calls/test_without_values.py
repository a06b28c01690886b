"""DDP's optimizer splits a graph by buckets of gradients, and calls each part with fake tensors while it compiles."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.distributed import DDPOptimizer

from air_backend import CompilerConfig, get_npu_backend

MODES = ("reduce-overhead", "max-autotune")
BUCKET = 100
"""Bytes: each layer is a part of its own."""


class Writing(nn.Module):
    """Each part writes to an argument: a buffer, or what the part before it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.count: Tensor
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            x = x + layer(x).tanh()
            x.mul_(0.9)
            self.count += 1
        return x, x[:, 1]


@pytest.mark.parametrize("is_kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("mode", MODES)
def test_N22_a_graph_that_is_split_for_buckets_of_gradients_and_writes_trains_as_eager_does(
    mode: str, is_kept: bool, device: torch.device
) -> None:
    config = CompilerConfig()
    config.set("mode", mode)
    config.set("air.cache.save", is_kept)
    split = DDPOptimizer(BUCKET, get_npu_backend(compiler_config=config), first_bucket_cap=BUCKET)
    torch.manual_seed(0)
    eager = Writing().to(device)
    ours = copy.deepcopy(eager)
    compiled: Any = torch.compile(ours, backend=split.compile_fn, dynamic=False)
    for rows in (3, 3, 3, 4, 3):
        x = torch.randn(rows, 6).to(device)
        for model, call in ((eager, eager), (ours, compiled)):
            model.zero_grad()
            sum(one.square().mean() for one in call(x)).backward()
        for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
        assert torch.equal(ours.count, eager.count)
    assert len(split.buckets) > 1
