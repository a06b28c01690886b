"""What literals and sizes decide, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import decided_by_sizes


def decided(
    function: Callable[..., Any], *args: Any, mode: Literal["real", "fake", "symbolic"] = "fake"
) -> dict[str, int]:
    """The operators that are decided, and how many symbols decide each."""
    gm = make_fx(function, tracing_mode=mode)(*args)
    return {str(node.target): len(symbols) for node, symbols in decided_by_sizes(gm.graph).items()}


def mask(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x + torch.triu(torch.full((n, n), -1.0), 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_sizes_decide_names_the_symbols_of_those_sizes(dynamic: bool) -> None:
    found = decided(mask, torch.ones(3, 3), mode="symbolic" if dynamic else "fake")
    assert found == {"aten.full.default": int(dynamic), "aten.triu.default": int(dynamic)}


def test_a_literal_is_decided_and_a_tensor_of_somebody_is_not() -> None:
    buffer = torch.ones(3)
    found = decided(lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + buffer.sin(), torch.ones(3), mode="real")
    assert list(found) == ["aten.lift_fresh_copy.default"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.rand(3),
        lambda x: x + torch.zeros(3).normal_(),
        lambda x: x + x.new_zeros(3).add_(x),
        lambda x: x.nonzero(),
    ],
)
def test_random_values_and_what_inputs_decide_are_not(function: Callable[[Tensor], Tensor]) -> None:
    gm = make_fx(torch.func.functionalize(function), tracing_mode="fake")(torch.ones(3))
    names = {str(node.target) for node in decided_by_sizes(gm.graph)}
    assert names <= {"aten.zeros.default"}


def test_an_operator_of_a_user_may_look_elsewhere() -> None:
    with torch.library._scoped_library("air_constants_test", "FRAGMENT") as library:
        library.define("table(int n, *, Device? device=None) -> Tensor")
        library.impl(
            "table", lambda n, device=None: torch.ones(n, device=device), "CompositeExplicitAutograd"
        )
        assert not decided(lambda x: x + torch.ops.air_constants_test.table(3), torch.ones(3))


@pytest.mark.parametrize("of_a_value", [False, True])
def test_a_size_read_off_a_computed_value_decides_nothing_since_the_value_had_to_be_computed(
    of_a_value: bool,
) -> None:
    gm = make_fx(lambda x: x + torch.arange(x.shape[0]), tracing_mode="symbolic")(torch.ones(3))
    traced = {str(node.target): node for node in gm.graph.nodes}
    x, size = traced["x_1"], traced["aten.sym_size.int"]
    if of_a_value:
        with gm.graph.inserting_before(size):
            doubled = gm.graph.call_function(torch.ops.aten.mul.Tensor, (x, 2))
        doubled.meta["val"] = x.meta["val"] * 2
        size.args = (doubled, 0)
    assert bool(decided_by_sizes(gm.graph)) != of_a_value
