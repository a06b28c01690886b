"""A fault in a converter: one of AIR's own leaves the operator to eager, one of a user's is the user's to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir import SplitExecutable, compile_graph
from air_geir.converters import _registry, find_converter
from air_geir.errors import ConverterFailed, UnsupportedGraphError
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


def with_converter(monkeypatch: pytest.MonkeyPatch, convert: Any) -> None:
    """The converter of sine is one of the user's."""
    known = find_converter(aten.sin.default)
    assert known is not None
    monkeypatch.setitem(_registry._CONVERTERS, known.target, replace(known, function=convert))


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


def test_a_fault_in_a_converter_of_the_users_is_raised_with_its_line_and_that_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_fault(monkeypatch, "somebody.converters")
    x = torch.arange(4.0)
    traced = trace(function, [x])
    for node in traced.graph.nodes:
        node.meta["stack_trace"] = (
            f'  File "{__file__}", line 1, in function\n    return [torch.sin(x + 1) * 2]'
        )
    with pytest.raises(ConverterFailed, match=r"aten\.sin\.default raised KeyError: .*no such row") as told:
        compile_graph(traced, [x], fallback="eager")
    assert isinstance(told.value.__cause__, KeyError)
    assert str(told.value.where).endswith('raise KeyError("a table has no such row")')
    assert "return [torch.sin(x + 1) * 2]" in str(told.value)


@pytest.mark.parametrize(("given", "advice"), [(None, "is there a return"), (3.0, "what ctx.emit gives")])
def test_a_converter_of_the_users_that_gives_no_value_is_at_fault_and_not_the_graph(
    monkeypatch: pytest.MonkeyPatch, given: Any, advice: str
) -> None:
    with_converter(monkeypatch, lambda ctx, self: given)
    x = torch.arange(4.0)
    with pytest.raises(ConverterFailed, match=rf"gave {given}, and not a Value") as told:
        compile_graph(trace(function, [x]), [x], fallback="eager")
    assert advice in told.value.advice
    assert __file__ in str(told.value.where)


def test_a_result_of_a_wrong_type_is_said_of_the_converter_and_not_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_converter(monkeypatch, lambda ctx, self: ctx.cast(self, torch.float64))
    x = torch.arange(4.0)
    with pytest.raises(UnsupportedGraphError, match=r"its converter \(.*float64.*ctx\.out_dtype") as told:
        compile_graph(trace(function, [x]), [x])
    assert __file__ in str(told.value)
    assert "register a converter" not in told.value.advice
