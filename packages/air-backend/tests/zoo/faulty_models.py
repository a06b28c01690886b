"""Models that go wrong on the way, for the tests of the zoo: one that is good, one that hangs, one that crashes."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch import Tensor, nn

from zoo.made import Made


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"twice": x * 2, "sum": x.sum()}


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


def names() -> list[str]:
    return ["good", "noisy", "hangs", "crashes"]


def make(name: str) -> Made:
    if name == "hangs":
        time.sleep(3600)
    if name == "crashes":
        os._exit(3)
    return Made(Noisy() if name == "noisy" else Doubled(), _inputs, name)


def _inputs() -> dict[str, Any]:
    return {"x": torch.randn(4)}
