"""Whatever runs a graph answers the same questions, and what it says is data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import air_aclgraph
from air_backend import _records
from air_graph.executors import Executor

WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "captured": ({"mode": "reduce-overhead"}, "Executable"),
    "cut": ({"mode": "reduce-overhead"}, "PiecedExecutable"),
    "converted": ({"mode": "max-autotune"}, "Executable"),
    "converted in part": ({"mode": "max-autotune"}, "SplitExecutable"),
    "eager": ({"debug.run_eagerly": True}, "EagerRun"),
    "dumped": ({"debug.data_dump.type": "npy"}, "EagerDump"),
}


def program(x: Tensor) -> Tensor:
    return (x + 1).sin() * 2


def with_a_decomposition(x: Tensor) -> Tensor:
    upper: Tensor = torch.linalg.qr(x + 1).R
    return upper * 2


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
@pytest.mark.parametrize("way", WAYS)
def test_every_executor_can_be_asked_the_same(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    _records.close_all()
    options, kind = WAYS[way]
    function = with_a_decomposition if way == "converted in part" else program
    if way == "cut":
        air_aclgraph.register_uncapturable("aten::sin")
    try:
        run = torch.compile(function, backend="air", options=options)
        x = torch.rand(3, 3)
        torch.testing.assert_close(run(x), function(x))
    finally:
        air_aclgraph.unregister_uncapturable("aten::sin")
    ((_, executor),) = _records.alive()
    assert isinstance(executor, Executor)
    assert type(executor).__name__ == kind
    assert executor.name.startswith("graph_")
    assert bool(executor.pieces) == bool(executor.eager) == (way in ("cut", "converted in part"))
    assert bool(executor.source) == (way != "dumped")
    json.dumps([executor.explain(), executor.stats()])
    executor.close()
