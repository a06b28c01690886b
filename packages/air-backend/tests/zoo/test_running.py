"""An architecture that hangs or crashes is a row, and those after it are judged."""

from __future__ import annotations

from pathlib import Path

from zoo.architectures import Architecture
from zoo.running import rows
from zoo.worker import Task

LIBRARY = "zoo.faulty_models"


def test_what_crashes_or_hangs_is_a_row_and_the_next_one_is_judged(tmp_path: Path) -> None:
    task = Task("cpu", ("aot_eager", "reduce-overhead"), str(tmp_path / "log"))
    wanted = [Architecture(LIBRARY, name) for name in ("crashes", "hangs", "good")]
    crashed, hung, good = rows(task, wanted, seconds=20)
    assert crashed.left_out == "made: the process ended with code 3"
    assert hung.left_out == "made: not done after 20 s"
    assert [outcome.kind for outcome in good.outcomes.values()] == ["same", "same"]
    assert good.outcomes["reduce-overhead"].captures == 1
