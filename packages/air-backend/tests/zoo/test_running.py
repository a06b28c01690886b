"""An architecture that hangs or crashes is a row, and those after it are judged."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo import running
from zoo.architectures import Architecture
from zoo.results import Row
from zoo.running import rows
from zoo.worker import Step, Task, device_works

LIBRARY = "zoo.faulty_models"


def judged(folder: Path, names: Sequence[str], seconds: float) -> Iterator[Row]:
    task = Task("cpu", ("aot_eager", "reduce-overhead"), str(folder / "log"))
    return rows(task, [Architecture(LIBRARY, name) for name in names], seconds=seconds)


def test_what_crashes_is_a_row_and_the_next_one_is_judged(tmp_path: Path) -> None:
    crashed, good = judged(tmp_path, ("crashes", "good"), seconds=120)
    assert crashed.left_out == "made: the process ended with code 3"
    assert [outcome.kind for outcome in good.outcomes.values()] == ["same", "same"]
    assert good.outcomes["reduce-overhead"].captures == 1


@pytest.mark.slow  # for as long as one may take, it waits
def test_what_hangs_is_a_row_and_the_next_one_is_judged(tmp_path: Path) -> None:
    hung, crashed = judged(tmp_path, ("hangs", "crashes"), seconds=20)
    assert hung.left_out == "made: not done after 20 s"
    assert crashed.left_out == "made: the process ended with code 3"


def test_a_process_that_says_nothing_any_more_takes_no_other() -> None:
    ours, _theirs = Pipe()
    row, alive = running._row(worker(ours), Architecture(LIBRARY, "hangs"), seconds=0.5)
    assert (row.left_out, alive) == ("made: not done after 0 s", False)


def test_the_time_that_others_take_from_it_is_not_its_own() -> None:
    mine = worker(None)
    before = running._used(mine)
    time.sleep(0.2)
    assert running._used(mine) - before < 0.1
    while running._used(mine) - before < 0.2:
        sum(range(10_000))


def worker(pipe: Any) -> running._Worker:
    """This process, as if it judged."""
    return running._Worker(multiprocessing.current_process(), pipe)


def test_a_device_that_computes_nothing_any_more_is_told_from_one_that_works() -> None:
    assert device_works(torch.device("cpu"))
    assert not device_works(torch.device("meta"))


def test_a_process_whose_device_a_model_has_broken_takes_no_other() -> None:
    ours, theirs = Pipe()
    for told in (True, False):
        theirs.send(Step("end", told))
        _, alive = running._row(worker(ours), Architecture(LIBRARY, "good"), seconds=20)
        assert alive is told
