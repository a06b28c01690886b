"""What follows from a new layout is found in time that grows with the graph alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Node

from air_fxpasses import Facts, Pipeline
from air_fxpasses.passes import _relaid
from air_fxpasses.passes._fuse_patterns import FusePatterns
from air_fxpasses.patterns._row import FusionPattern
from air_fxpasses.testing import functional_graph

ROW = FusionPattern(
    "dense",
    search=lambda x: torch.sin(x) * torch.cos(x),
    replace=lambda x: torch.mm(x, x),
    example_inputs=lambda: [torch.ones(4, 4)],
)


def values_computed(matches: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """By a pass over a graph whose caller would notice the layout of each match."""

    def function(x: Tensor) -> Tensor:
        x = x.t()
        for _ in range(matches):
            x = torch.sin(x) * torch.cos(x) + 1
        return x

    asked: list[Node] = []
    original = _relaid._value

    def counted(facts: Facts, user: Node) -> Any:
        asked.append(user)
        return original(facts, user)

    monkeypatch.setattr(_relaid, "_value", counted)
    gm = functional_graph(function, torch.ones(4, 4))
    step = Pipeline([FusePatterns(patterns=(ROW,))]).run(gm, [torch.ones(4, 4)]).step("fuse_patterns")
    monkeypatch.undo()
    assert len(step.refusals) == matches
    assert all("would change" in refusal.reason for refusal in step.refusals)
    return len(asked)


def test_a_layout_that_has_to_stay_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert values_computed(20, monkeypatch) <= 2 * values_computed(10, monkeypatch) + 2
