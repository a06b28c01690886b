"""Graphs that a caller traced: `compile_fx` takes them functional or not, of ATen operators or of torch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import compile_fx
from air_backend._given import is_as_aotautograd_makes_it

MODES = ("reduce-overhead", "max-autotune")
Function = Callable[..., Any]


def of_real(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function)(*inputs)


def of_fake(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def of_sizes(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="symbolic")(*inputs)


def of_functions(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def writes_a_part(x: Tensor, y: Tensor) -> dict[str, Any]:
    before = x.reshape(-1) * 1
    x.narrow(0, 0, 2).add_(1)
    made = torch.relu(x - y)
    made[0].mul_(2)
    return {"made": made, "rest": [before, (x, made[0])]}


def of_one_tensor(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat((x, y)).sort()[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("traced", [of_real, of_fake, of_sizes, of_functions])
@pytest.mark.parametrize("function", [writes_a_part, of_one_tensor])
def test_A24_a_traced_graph_gives_what_its_function_gives(
    function: Function, traced: Callable[..., fx.GraphModule], mode: str
) -> None:
    example = torch.randn(4, 3), torch.randn(4, 3)
    run = compile_fx(traced(function, *(value.clone() for value in example)), example, {"mode": mode})
    for _ in range(3):
        given = [torch.randn(4, 3), torch.randn(4, 3)]
        expected = [value.clone() for value in given]
        torch.testing.assert_close(run(*given), function(*expected))
        torch.testing.assert_close(given, expected)


def test_a_result_that_is_an_argument_is_the_argument() -> None:
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    run = compile_fx(of_real(writes_a_part, x, y), [x, y], {"mode": "reduce-overhead"})
    made = run(x, y)
    assert made["rest"][1][0] is x
    assert made["made"].untyped_storage()._cdata == made["rest"][1][1].untyped_storage()._cdata


def test_a_functional_graph_of_one_trace_needs_no_second_one() -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        y = x.view(-1) * x.shape[0]
        x.copy_(y.view_as(x))
        return (y,)

    graph = of_sizes(torch.func.functionalize(function), torch.randn(3, 2))
    assert is_as_aotautograd_makes_it(graph)
    assert not is_as_aotautograd_makes_it(of_functions(of_one_tensor))
    assert not is_as_aotautograd_makes_it(of_fake(writes_a_part, torch.ones(2, 2), torch.ones(2, 2)))
    assert not is_as_aotautograd_makes_it(of_real(of_one_tensor, torch.ones(2), torch.ones(2)))
