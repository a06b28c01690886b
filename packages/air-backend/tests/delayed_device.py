"""A device that air-sim delays: what is not ordered comes too late, and shows in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

air_sim = pytest.importorskip("air_sim")
npu: Any = getattr(torch, "npu", None)

#: What a module of such tests is marked with.
MARKS = [
    pytest.mark.npu("air-sim delays what the device does"),
    pytest.mark.usefixtures("in_order_again"),
]

SIZE = 4_000
CALLS = 8


@contextmanager
def delayed(seed: int, by_us: int = 2_000) -> Iterator[None]:
    """Inside, each task of the device waits for a while that `seed` draws."""
    air_sim.change(seed=seed, delay_us=by_us)
    yield
    air_sim.change(seed=0, delay_us=0)


def slow(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x + 1
    return x
