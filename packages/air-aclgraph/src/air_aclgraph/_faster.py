"""Finds which of two ways to copy some tensors is faster on this device, by timing both.

Both ways are right; which is faster depends on the device, its driver and how many tensors there are.  So each is
called some times on tensors of its own, until the device is done, once for a number of tensors and a power of two of
bytes; the answer is kept for the process.  The first capture of such a set waits for these copies.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

log = logging.getLogger(__name__)

#: Makes the copy of as many tensors as there are buffers.
Way = Callable[[Sequence[Tensor]], Callable[..., object]]

_ROUNDS: Final = 5
_CALLS: Final = 10
#: What the second way has to take less of the first one's time: less than that is a disturbance of the machine.
_WORTH: Final = 0.9


Choice = Callable[[Sequence[Tensor], Way, Way], bool]
"""Says whether the first of two ways is to be taken for some buffers."""


class Measured:
    """The choice by what both ways took."""

    def __init__(self) -> None:
        self._found: dict[tuple[torch.device, int, int], bool] = {}

    def __call__(self, buffers: Sequence[Tensor], first: Way, second: Way) -> bool:
        nbytes = sum(buffer.nbytes for buffer in buffers)
        key = (buffers[0].device, len(buffers), nbytes.bit_length())
        if key not in self._found:
            seconds = _seconds(buffers, first, second)
            self._found[key] = seconds[1] > _WORTH * seconds[0]
            log.info(
                "copies of %d tensors, %d bytes, on %s: %.1f us one by one, %.1f us in one call",
                len(buffers), nbytes, buffers[0].device, *(1e6 * each for each in seconds),
            )  # fmt: skip
        return self._found[key]


def _seconds(buffers: Sequence[Tensor], *ways: Way) -> list[float]:
    """The least time of one call of each way; their rounds take turns."""
    targets, sources = ([torch.empty_like(buffer) for buffer in buffers] for _ in range(2))
    device = buffers[0].device
    settle = functools.partial(torch.get_device_module(device).synchronize, device)
    copies = [way(targets) for way in ways]
    rounds = [[_round(copy, sources, settle) for copy in copies] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _round(copy: Callable[..., object], sources: Sequence[Tensor], settle: Callable[[], object]) -> float:
    settle()
    started = time.perf_counter()
    for _ in range(_CALLS):
        copy(*sources)
    settle()
    return (time.perf_counter() - started) / _CALLS
