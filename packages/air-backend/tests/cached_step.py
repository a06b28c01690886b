"""A module whose method is compiled by `cache_compile`, in the process of the tests and in others."""

from __future__ import annotations

import json
from typing import Any

import torch as t  # not as `torch`: Dynamo then puts it among the globals itself
from torch import Tensor, nn
from torch._dynamo.utils import counters

import air_backend

SCALE = 2


class Step(nn.Module):
    """A decode step with a cache that it writes."""

    cache: Tensor

    def __init__(self, dtype: t.dtype = t.float32) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=dtype)
        self.factor = 1.5  # with dynamic sizes it goes into the graph as a tensor
        self.register_buffer("cache", t.zeros(4, 8, dtype=dtype))

    def step(self, x: Tensor, row: int = 0) -> Tensor:
        """Writes the first row of `x` and returns all of the cache, as seen through the layer."""
        self.cache[row].copy_(x[0])
        return t.relu(self.linear(x)).sum(0) * SCALE * self.factor + self.cache.sum(0)


def made(dtype: t.dtype = t.float32) -> Step:
    """The same weights in every process."""
    t.manual_seed(0)
    return Step(dtype).eval()


def inputs(rows: int = 3, dtype: t.dtype = t.float32) -> Tensor:
    return t.randn(rows, 8, generator=t.Generator().manual_seed(1)).to(dtype)


def expected(x: Tensor) -> Tensor:
    """What eager computes."""
    with t.no_grad():
        return made(x.dtype).step(x)


def cached(model: Step, folder: str, mode: str, dynamic: bool = False) -> Any:
    config = air_backend.CompilerConfig()
    config.set("mode", mode)
    return air_backend.inference.cache_compile(model.step, config=config, cache_dir=folder, dynamic=dynamic)


def main(folder: str, mode: str) -> None:
    """Calls the function with two sizes, and prints how far it is from eager and how much was traced."""
    step = cached(made(), folder, mode, dynamic=True)
    difference = max((step(inputs(rows)) - expected(inputs(rows))).abs().max().item() for rows in (3, 5))
    print(json.dumps({"difference": difference, "traced": counters["stats"].get("unique_graphs", 0)}))
