"""Models that go wrong on the way, for the tests of the zoo: one that is good, one that hangs, one that crashes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from zoo.made import Made


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"twice": x * 2, "sum": x.sum()}


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class Learning(nn.Module):
    """Has what a step of training leaves: gradients, one of which is zero but for rounding, and running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        batch = torch.sin(x * torch.arange(1.0, 6.0)[:, None])
        out: Tensor = self.drop(self.norm(self.first(batch)))
        return out


MODELS: Final[dict[str, Callable[[], nn.Module]]] = {"good": Doubled, "noisy": Noisy, "learning": Learning}


def names() -> list[str]:
    return ["good", "noisy", "hangs", "crashes"]


def make(name: str) -> Made:
    if name == "hangs":
        time.sleep(3600)
    if name == "crashes":
        os._exit(3)
    torch.manual_seed(0)
    return Made(MODELS[name](), _inputs, name)


def _inputs() -> dict[str, Any]:
    return {"x": torch.randn(4)}
