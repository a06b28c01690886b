"""Sizes that are new in nearly every call: captures that were for nothing make a graph slow to capture."""

from __future__ import annotations

import logging
import random

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable
from air_aclgraph._patience import (
    IN_VAIN_ALLOWED,
    KNOWN,
    MOST,
    TOO_RARE,
    WORTHWHILE,
    Patience,
)


def unread(note: str) -> None:
    """Nobody looks at these notes."""


def scaled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * x.shape[0],)


def test_N10_sizes_that_never_come_again_stop_being_captured_with_one_warning(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=3)
    with caplog.at_level(logging.WARNING, "air_aclgraph"):
        for rows in range(2, 102):
            x = torch.randn(rows, 2, device=device)
            torch.testing.assert_close(run(x)[0], x * rows)
    stats = run.stats()
    assert stats["captures"] == 3 + IN_VAIN_ALLOWED
    assert stats["eager_calls"] == {TOO_RARE: 100 - stats["captures"]}
    told = [r.getMessage() for r in caplog.records if "has come 2 times" in r.getMessage()]
    assert len(told) == 1
    assert "set_dim_buckets" in told[0]
    assert len(run.explain()["history"]) < 10


def test_N10_a_size_that_comes_often_is_captured_however_many_never_come_again(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=2)
    for rows in range(2, 40):
        run(torch.randn(rows, 2, device=device))
    before = run.stats()["captures"]
    for _ in range(5):
        run(torch.randn(77, 2, device=device))
    assert run.stats()["captures"] == before + 1
    assert run.keys()[-1] == (77,)


def test_N10_a_cycle_longer_than_the_cache_is_mostly_run_eagerly(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=3)
    for _ in range(50):
        for rows in range(2, 7):
            x = torch.randn(rows, 2, device=device)
            torch.testing.assert_close(run(x)[0], x * rows)
    assert run.stats()["captures"] < 60


def test_N10_as_many_sizes_as_the_cache_holds_are_each_captured_when_they_first_come(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True)
    for rows in random.Random(0).sample(range(2, 1000), 64):
        run(torch.randn(rows, 2, device=device))
    assert run.stats()["captures"] == 64
    assert not run.stats()["eager_calls"]


def test_a_call_is_pinned_at_once_where_sizes_hardly_ever_come_again(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=1)
    for rows in range(2, 40):
        run(torch.randn(rows, 2, device=device))
    x = torch.randn(55, 2, device=device)
    pinned = run.pin(x)
    torch.testing.assert_close(pinned(x)[0], x * 55)


def test_captures_that_were_replayed_make_a_graph_quick_to_capture_again() -> None:
    patience = Patience("graph", 1, 64, unread)
    for key in range(100 * IN_VAIN_ALLOWED):
        patience.dropped(key, WORTHWHILE - 1)
    assert patience.calls == MOST
    for key in range(10):
        patience.dropped(key, WORTHWHILE)
    assert patience.calls == 1


def test_a_capture_in_vain_now_and_then_changes_nothing() -> None:
    patience = Patience("graph", 1, 64, unread)
    for key in range(100):
        patience.dropped(key, 0 if key % IN_VAIN_ALLOWED else WORTHWHILE)
    assert patience.calls == 1


def test_warm_up_calls_are_counted_beside() -> None:
    patience = Patience("graph", 3, 64, unread)
    assert [patience.why_not_yet("a") for _ in range(4)] == ["warm-up", "warm-up", None, None]


def test_N10_sizes_in_a_turn_much_longer_than_the_cache_are_never_captured_all_at_once(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=3)
    x, captures = torch.ones(60, 2, device=device), []
    for _ in range(300):
        before = run.stats()["captures"]
        for rows in range(2, 52):
            run(x[:rows])
        captures.append(run.stats()["captures"] - before)
    assert captures[0] == 3 + IN_VAIN_ALLOWED
    assert not any(captures[1:])


def test_what_came_long_ago_is_forgotten_so_that_no_memory_grows_with_the_sizes() -> None:
    patience = Patience("graph", 1, 2, unread)
    for key in range(4 * IN_VAIN_ALLOWED):
        patience.dropped(key, 0)
    assert patience.calls > 1
    assert patience.why_not_yet("a") == TOO_RARE
    for key in range(KNOWN * 2):
        patience.why_not_yet(key)
    for _ in range(patience.calls - 1):
        assert patience.why_not_yet("a") == TOO_RARE
    assert patience.why_not_yet("a") is None
    for key in range(1000):
        patience.why_not_yet(key)
    assert len(patience._recent) == KNOWN * 2


def test_a_call_that_came_too_seldom_leaves_nothing_behind_and_asks_nothing_else(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    run = executable(scaled, x, device=device, dynamic=True, debug__aclgraph__static_capture_size_limit=3)
    for rows in range(2, 102):
        run(torch.ones(rows, 2, device=device))
    assert run.stats()["captures"] == 3 + IN_VAIN_ALLOWED
    assert len(run._keys.policies) == 3 + IN_VAIN_ALLOWED
