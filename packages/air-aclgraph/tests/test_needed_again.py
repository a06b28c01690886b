"""Captures that are needed again soon after they made room make none."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable
from air_aclgraph._needed_again import LATELY_AT_LEAST, NEEDED_AGAIN
from air_aclgraph._patience import Patience


def unread(note: str) -> None:
    """Nobody looks at these notes."""


class Capture:
    """A capture that counts its replays."""

    def __init__(self) -> None:
        self.count = [0]


class Cache:
    """Keeps captures as an executable does, and makes none."""

    def __init__(self, limit: int, note: Callable[[str], None] = unread) -> None:
        self.patience = Patience("graph", 1, limit, note)
        self.limit = limit
        self.kept: OrderedDict[int, Capture] = OrderedDict()
        self.hits = self.captures = 0

    def __call__(self, keys: Iterable[int]) -> int:
        """Calls with these keys; gives how many captures they took."""
        before = self.captures
        for key in keys:
            self.call(key)
        return self.captures - before

    def call(self, key: int) -> None:
        if key in self.kept:
            self.kept.move_to_end(key)
            self.kept[key].count[0] += 1
            self.hits += 1
            return
        if self.patience.why_not_yet(key, self.kept if len(self.kept) >= self.limit else None) is not None:
            return
        while len(self.kept) >= self.limit:
            oldest, capture = self.kept.popitem(last=False)
            self.patience.dropped(oldest, capture.count[0])
        self.kept[key] = Capture()
        self.captures += 1


def drawn(sizes: int, calls: int, power: float = 0.0, first: int = 0) -> list[int]:
    """Calls with sizes of which the n-th comes in proportion to 1 / n^power."""
    weights = [1 / (number + 1) ** power for number in range(sizes)]
    return random.Random(sizes + first).choices(range(first, first + sizes), weights, k=calls)


@pytest.mark.parametrize("sizes", [66, 80, 100, 130])
def test_N10_a_few_more_sizes_than_the_cache_holds_do_not_replace_one_another_for_ever(sizes: int) -> None:
    cache = Cache(64)
    assert cache(drawn(sizes, 2000)) < 64 + 5 * NEEDED_AGAIN
    hits = cache.hits
    assert cache(drawn(sizes, 8000)) <= 25
    assert cache.hits - hits > 0.9 * 8000 * 64 / sizes


def test_N10_a_turn_of_more_sizes_than_the_cache_holds_is_captured_once() -> None:
    for sizes in (66, 80, 100, 300):
        assert Cache(64)(list(range(sizes)) * (10_000 // sizes)) <= 64 + 2 * NEEDED_AGAIN


@pytest.mark.parametrize(("power", "hits"), [(0.8, 0.34), (1.0, 0.56), (1.2, 0.73), (1.5, 0.90)])
def test_N10_sizes_that_come_often_are_captured_among_many_that_come_seldom(
    power: float, hits: float
) -> None:
    cache = Cache(64)
    assert cache(drawn(1000, 10_000, power)) < 100
    assert cache.hits > hits * 10_000


def test_N10_other_sizes_than_before_are_captured_at_once_where_those_before_come_no_more() -> None:
    cache = Cache(64)
    for phase in range(4):
        assert cache(drawn(64, 2000, first=100 * phase)) == 64
    assert cache.hits > 0.95 * 8000


def test_N10_other_sizes_than_before_are_captured_after_a_while_where_some_were_needed_again() -> None:
    cache, notes = Cache(64), list[str]()
    cache.patience = Patience("graph", 1, 64, notes.append)
    cache(drawn(80, 4000))
    assert sum("needed again" in note for note in notes) == 1
    cache(drawn(64, 2 * LATELY_AT_LEAST + 300, first=1000))
    hits = cache.hits
    cache(drawn(64, 1000, first=1000))
    assert cache.hits - hits > 900


def test_N10_a_graph_called_with_more_sizes_than_it_keeps_gives_the_numbers_of_eager_and_stops_capturing(
    device: str,
) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=8)
    sizes = random.Random(3)
    for count in range(600):
        x = torch.randn(sizes.randrange(2, 12), 2, device=device)
        torch.testing.assert_close(run(x)[0], x * x.shape[0])
        if count == 199:
            before = run.stats()["captures"]
    assert before < 8 + 4 * NEEDED_AGAIN
    assert run.stats()["captures"] <= before + 2


def scaled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * x.shape[0],)
