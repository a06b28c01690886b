"""Which operator gives back what one writes, and what calls of torch write by their names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import symbolic_trace
from torch.nn import functional

from air_graph import functional_of, written_by_name

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("written", "functional"),
    [
        (aten.index_copy_.default, aten.index_copy.default),
        (aten.copy_.default, aten.copy.default),
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add.Tensor, None),
        (aten.add.out, None),
        (aten._foreach_add_.Scalar, None),
    ],
)
def test_an_operator_that_writes_its_first_argument_has_a_twin_that_does_not(
    written: Any, functional: Any
) -> None:
    assert functional_of(written) is functional


def with_out(x: Tensor, y: Tensor) -> Tensor:
    return torch.add(x, y, out=x)


WRITES: dict[str, Callable[..., Any]] = {
    "a method": lambda x, y: x.add_(y),
    "a function": lambda x, y: torch.relu_(x) + y,
    "a function of nn": lambda x, y: functional.elu_(x) + y,
    "out": with_out,
}
READS: dict[str, Callable[..., Any]] = {
    "a method": lambda x, y: x.add(y),
    "a special method": lambda x, y: x.__add__(y),
    "an operator of Python": lambda x, y: x + y,
}


def written(function: Callable[..., Any]) -> set[str]:
    graph = symbolic_trace(function).graph
    return {value.name for node in graph.nodes for value in written_by_name(node)}


@pytest.mark.parametrize("name", WRITES)
def test_a_call_that_writes_is_known_by_its_name(name: str) -> None:
    assert written(WRITES[name]) == {"x"}


@pytest.mark.parametrize("name", READS)
def test_a_call_that_reads_writes_nothing(name: str) -> None:
    assert not written(READS[name])


@pytest.mark.parametrize("called", [operator.iadd, operator.imul, operator.setitem])
def test_operators_of_python_write_their_first_operand(called: Any) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    assert written_by_name(graph.call_function(called, (x, 0, 1.0))) == (x,)
