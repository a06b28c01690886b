"""An architecture that hangs or crashes is a row, and those after it are judged."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path

import torch

from zoo import running
from zoo.architectures import Architecture
from zoo.running import rows
from zoo.worker import Step, Task, device_works

LIBRARY = "zoo.faulty_models"


def test_what_crashes_or_hangs_is_a_row_and_the_next_one_is_judged(tmp_path: Path) -> None:
    task = Task("cpu", ("aot_eager", "reduce-overhead"), str(tmp_path / "log"))
    wanted = [Architecture(LIBRARY, name) for name in ("crashes", "hangs", "good")]
    crashed, hung, good = rows(task, wanted, seconds=10)
    assert crashed.left_out == "made: the process ended with code 3"
    assert hung.left_out == "made: not done after 10 s"
    assert [outcome.kind for outcome in good.outcomes.values()] == ["same", "same"]
    assert good.outcomes["reduce-overhead"].captures == 1


def test_a_device_that_computes_nothing_any_more_is_told_from_one_that_works() -> None:
    assert device_works(torch.device("cpu"))
    assert not device_works(torch.device("meta"))


def test_a_process_whose_device_a_model_has_broken_takes_no_other() -> None:
    ours, theirs = Pipe()
    for told in (True, False):
        theirs.send(Step("end", told))
        _, alive = running._row(running._Worker(None, ours), Architecture(LIBRARY, "good"), seconds=20)
        assert alive is told
