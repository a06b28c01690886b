"""Of two ways to copy the one is taken that takes less time, and each is timed once for as many tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from air_aclgraph._faster import Measured, Way


def taking(seconds: float, seen: list[float]) -> Way:
    """A way to copy that takes so long, and writes down that it was called."""

    def way(buffers: Sequence[Tensor]) -> Callable[..., None]:
        def copy(*sources: Tensor) -> None:
            seen.append(seconds)
            time.sleep(seconds)
            for buffer, source in zip(buffers, sources, strict=True):
                buffer.copy_(source)

        return copy

    return way


@pytest.mark.parametrize(("first", "second"), [(0.0, 0.002), (0.002, 0.0)])
def test_the_way_that_takes_less_time_is_taken(first: float, second: float) -> None:
    seen: list[float] = []
    buffers = [torch.zeros(4), torch.zeros(4)]
    assert Measured()(buffers, taking(first, seen), taking(second, seen)) is (first < second)
    assert {first, second} == set(seen)


def test_what_was_found_is_asked_for_and_not_measured_again() -> None:
    seen: list[float] = []
    choice, ways = Measured(), (taking(0.0, seen), taking(0.001, seen))
    choice([torch.zeros(4), torch.zeros(4)], *ways)
    measured = len(seen)
    choice([torch.ones(4), torch.ones(4)], *ways)
    assert len(seen) == measured
    choice([torch.zeros(4) for _ in range(3)], *ways)
    assert len(seen) == 2 * measured


def test_the_buffers_themselves_are_left_alone() -> None:
    buffers = [torch.full((4,), 3.0), torch.full((4,), 4.0)]
    Measured()(buffers, taking(0.0, []), taking(0.0, []))
    assert [buffer.unique().tolist() for buffer in buffers] == [[3.0], [4.0]]
