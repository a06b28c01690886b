"""An architecture that hangs or crashes is a row, and those after it are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.architectures import Architecture
from zoo.results import Outcome, Row
from zoo.running import left_a_fault, rows
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


@pytest.mark.parametrize(
    ("ground", "row", "replaced"),
    [
        ("sim", Row("timm", "one", left_out="eager: a kernel failed"), True),
        ("sim", Row("timm", "one", outcomes={"aot_eager": Outcome("error")}), True),
        ("sim", Row("timm", "one", left_out="NotMade: too large"), False),
        ("sim", Row("timm", "one", outcomes={"aot_eager": Outcome("differs")}), False),
        ("cpu", Row("timm", "one", left_out="eager: a kernel failed"), False),
    ],
)
def test_a_process_whose_device_may_report_a_fault_later_serves_no_other_row(
    ground: str, row: Row, replaced: bool
) -> None:
    assert left_a_fault(Task(ground, (), ""), row) is replaced
