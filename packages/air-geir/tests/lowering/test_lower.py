"""A fault in a converter: one of AIR's own leaves the operator to eager, one of a user's is the user's to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir import SplitExecutable, compile_graph
from air_geir.converters import _registry, find_converter
from air_geir.errors import UnsupportedGraphError
from air_geir.proof import trace

aten = torch.ops.aten


def faulty(ctx: Any, *args: Any, **kwargs: Any) -> Any:
    raise KeyError("a table has no such row")


def function(x: Tensor) -> list[Tensor]:
    return [torch.sin(x + 1) * 2]


def with_fault(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(faulty, "__module__", module)
    known = find_converter(aten.sin.default)
    assert known is not None
    monkeypatch.setitem(_registry._CONVERTERS, known.target, replace(known, function=faulty))


def test_an_operator_whose_converter_has_a_fault_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    with_fault(monkeypatch, "air_geir.converters.math")
    x = torch.arange(4.0)
    run = compile_graph(trace(function, [x]), [x], fallback="eager")
    assert isinstance(run, SplitExecutable)
    (left,) = run.eager
    assert "KeyError" in left.reason
    assert torch.equal(run(x)[0], function(x)[0])


def test_where_no_cut_is_wanted_the_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_fault(monkeypatch, "air_geir.converters.math")
    x = torch.arange(4.0)
    with pytest.raises(UnsupportedGraphError, match=r"aten\.sin.*KeyError"):
        compile_graph(trace(function, [x]), [x])


def test_a_fault_in_a_converter_of_the_users_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with_fault(monkeypatch, "somebody.converters")
    x = torch.arange(4.0)
    with pytest.raises(KeyError, match="no such row"):
        compile_graph(trace(function, [x]), [x], fallback="eager")
