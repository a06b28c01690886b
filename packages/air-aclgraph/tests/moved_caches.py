"""Functions that write a cache, and requests that each bring a cache of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def step(cache: Tensor, x: Tensor) -> tuple[Tensor]:
    cache.add_(x)
    return ((cache * 2).sum(),)


def doubled(cache: Tensor, x: Tensor) -> tuple[Tensor]:
    return (cache.mul_(2).sum() + x.sum(),)


def requests_of_two_graphs(device: str, *runs: Any) -> None:
    """Requests whose cache is written by `step` and by `doubled` in turn."""
    for _ in range(4):
        cache, x = torch.zeros(4, device=device), torch.ones(4, device=device)
        assert runs[0](cache, x)[0].item() == 8.0
        assert runs[1](cache, x)[0].item() == 12.0
        assert runs[0](cache, x)[0].item() == 24.0
        assert cache.tolist() == [3.0] * 4
