"""A part of the zoo of a size for CI: what the kept results call good is good."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo import page, results
from zoo.architectures import Shard, listed
from zoo.judging import MODES, TORCH
from zoo.running import rows
from zoo.unloaded import declare_what_torchvision_lacks
from zoo.worker import Task

ROOT = Path(__file__).resolve().parents[4]
EVERY = (100, pytest.param(40, marks=pytest.mark.slow))
"""Of the architectures whose kept row is good; there are hundreds."""
SECONDS = 10
"""What those that CI takes took to be compiled in all modes, when their rows were made."""
LIMIT = 150.0
"""So that one that hangs is a row that says so before pytest's own limit ends the test."""


@pytest.mark.parametrize("every", EVERY)
def test_N26_a_shard_of_transformers_is_as_good_in_both_modes_as_it_was(every: int, tmp_path: Path) -> None:
    declare_what_torchvision_lacks()
    kept = [row for row in results.read(results.file_of(ROOT, "cpu")) if page.verdict(row) == "good"]
    taken = {row.key: sum(outcome.seconds for outcome in row.outcomes.values()) for row in kept}
    good = [one for one in listed(["transformers"], Shard(0, 1)) if taken.get(one, SECONDS) < SECONDS]
    wanted = good[::every]
    assert len(wanted) >= 4
    task = Task("cpu", (TORCH, *MODES), str(tmp_path / "log"))
    fresh = list(rows(task, wanted, LIMIT))
    assert [page.line(row) for row in page.fallen(kept, fresh)] == []
    assert sum(page.verdict(row) == "good" for row in fresh) >= len(wanted) // 2
