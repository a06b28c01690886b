"""The user's line of a node."""

from __future__ import annotations

import torch

from air_graph import source_of
from air_streams import StreamPlan, scope
from streams_models import compiled


def test_a_finding_names_the_lines_of_the_model_not_of_this_package() -> None:
    def racy(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        with scope.npu_stream_switch("1"):
            z = y * 2
        return (z,)

    _, backend = compiled(racy, torch.ones(2), sync="off")
    plan: StreamPlan = backend.plans[0]
    (race,) = plan.races()
    assert race.first_line is not None
    assert race.second_line is not None
    assert race.first_line.file.endswith("test_source.py")
    assert race.first_line.code == "y = x + 1"
    assert race.second_line.code == "z = y * 2"
    assert race.second_line.line == race.first_line.line + 2
    enter = next(node for node in plan.nodes if "stream_enter" in node.name)
    line = source_of(enter)
    assert line is not None
    assert line.file.endswith("test_source.py")
