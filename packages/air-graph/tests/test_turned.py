"""Inputs that a graph turns in place are found, in graphs of torch functions, of methods and of ATen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import turned_inputs

Function = Callable[..., Any]


def methods(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    x.t_()
    return x + y.t()


def of_a_result(x: Tensor, y: Tensor) -> Tensor:
    return x.mul_(2).squeeze_() + y


def of_a_view(x: Tensor, y: Tensor) -> Tensor:
    x.view(-1).unsqueeze_(0)
    y.add_(1)
    return x + y


def in_both(x: Tensor, y: Tensor) -> Tensor:
    y.unsqueeze_(0).squeeze_(0)
    x.transpose_(0, 1)
    return x + y


def by_methods(function: Function) -> GraphModule:
    return symbolic_trace(function)


def by_aten(function: Function) -> GraphModule:
    gm: GraphModule = make_fx(function)(torch.ones(3, 3), torch.ones(3, 3))
    return gm


@pytest.mark.parametrize("trace", [by_methods, by_aten])
@pytest.mark.parametrize(
    ("function", "turned"), [(methods, "x"), (of_a_result, "x"), (of_a_view, ""), (in_both, "xy")]
)
def test_inputs_that_are_turned_are_found_and_no_others(
    function: Function, turned: str, trace: Callable[[Function], GraphModule]
) -> None:
    found = turned_inputs(trace(function))
    assert sorted(str(node.target)[0] for node in found) == [*turned]


def test_the_first_call_that_turns_it_is_named() -> None:
    ((_, call),) = turned_inputs(by_aten(methods)).items()
    assert call.target is torch.ops.aten.t_.default
