"""Calls that Dynamo does not guard: a graph compiled by hand, and a pinned one, refuse other types and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import compile_fx, npugraph_ex, pin
from air_backend._kinds import Kinds
from air_backend.errors import OtherInput, PinnedArgument

MODES = ("reduce-overhead", "max-autotune")
OTHERS = [
    (torch.ones(1, 3), r"argument 0 is float32\[1, 3\], and was float32\[2, 3\]"),
    (torch.ones(3), r"argument 0 is float32\[3\]"),
    (torch.ones(4, 3), r"argument 0 is float32\[4, 3\]"),
    (torch.ones(2, 3, dtype=torch.float64), r"argument 0 is float64\[2, 3\]"),
    (2.0, "argument 0 is 2.0"),
]


def of_functions(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def of_operators(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function)(*inputs)


def of_one_trace(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    return make_fx(lambda x: (function(x),), tracing_mode="fake")(*inputs)


def result_of(results: Any) -> Any:
    return results if isinstance(results, Tensor) else results[0]


def doubled(x: Tensor) -> Tensor:
    return torch.relu(x) * 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("traced", [of_functions, of_operators])
@pytest.mark.parametrize(("other", "told"), OTHERS)
def test_A24_a_graph_compiled_by_hand_refuses_what_it_was_not_compiled_for(
    other: Any, told: str, traced: Callable[..., fx.GraphModule], mode: str
) -> None:
    example = torch.ones(2, 3)
    run = compile_fx(traced(doubled, example), [example], {"mode": mode})
    for _ in range(2):
        with pytest.raises(OtherInput, match=told):
            run(other)
        torch.testing.assert_close(run(torch.full((2, 3), 3.0)), torch.full((2, 3), 6.0))
    with pytest.raises(OtherInput, match="2 arguments are given, the example had 1"):
        run(example, example)


@pytest.mark.parametrize("mode", MODES)
def test_A24_sizes_that_were_traced_as_open_may_differ(mode: str) -> None:
    gm = make_fx(doubled, tracing_mode="symbolic")(torch.ones(2, 3))
    run = compile_fx(gm, options={"mode": mode})
    for rows in (2, 5, 2):
        torch.testing.assert_close(run(torch.ones(rows, 3)), torch.full((rows, 3), 2.0))
    with pytest.raises(OtherInput, match="argument 0 is float32"):
        run(torch.ones(3))


@pytest.mark.parametrize(("other", "told"), OTHERS[:-1])
def test_a_pinned_call_refuses_other_types_and_sizes_of_what_it_copies(other: Any, told: str) -> None:
    step = torch.compile(doubled, backend="air", mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        fast = pin(step, torch.ones(2, 3))
        with pytest.raises(PinnedArgument, match=told):
            fast(other)
        torch.testing.assert_close(fast(torch.full((2, 3), 3.0)), torch.full((2, 3), 6.0))


def test_a_parameter_is_looked_at_once_and_another_again() -> None:
    weight, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    kinds = Kinds([weight, torch.ones(2)])
    given = torch.ones(2)
    assert kinds.difference([weight, given]) is None
    assert kinds.difference([weight, given]) is None
    assert str(kinds.difference([other, given])).startswith("argument 0 is float32[3]")
    assert str(kinds.difference([torch.ones(2).int(), given])).startswith("argument 0 is int32[2]")
    assert kinds.difference([nn.Parameter(torch.zeros(2)), given]) is None
    assert str(kinds.difference([2, given])).startswith("argument 0 is 2")


@pytest.mark.parametrize("traced", [of_functions, of_operators, of_one_trace])
@pytest.mark.parametrize(("other", "told"), OTHERS)
def test_N27_a_graph_of_npugraph_ex_refuses_other_types_and_sizes(
    other: Any, told: str, traced: Callable[..., fx.GraphModule]
) -> None:
    example = torch.ones(2, 3)
    run = npugraph_ex.compile_fx(traced(doubled, example), [example])
    for _ in range(2):
        with pytest.raises(OtherInput, match=told):
            run(other)
        torch.testing.assert_close(result_of(run(torch.full((2, 3), 3.0))), torch.full((2, 3), 6.0))


def test_numbers_of_the_example_are_part_of_it() -> None:
    kinds = Kinds([torch.ones(2), 3])
    assert kinds.difference([torch.zeros(2), 3]) is None
    assert kinds.difference([torch.zeros(2), 4]) == "argument 1 is 4, and was 3"


def test_a_number_of_the_example_is_told_from_others_as_kernels_tell_it() -> None:
    kinds = Kinds([float("nan"), 0.0])
    assert kinds.difference([float("nan"), 0.0]) is None
    assert kinds.difference([float("nan"), -0.0]) == "argument 1 is -0.0, and was 0.0"
