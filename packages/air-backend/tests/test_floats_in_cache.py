"""A graph in torch's cache is used for the float arguments that it holds for, and for no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._inductor.utils import fresh_cache
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from air_backend._floats_in_cache import floats_compared


@pytest.fixture(autouse=True)
def own_cache() -> Iterator[None]:
    with fresh_cache():
        yield


def compiled(function: Callable[..., Any]) -> Any:
    """As another process would do it: Dynamo knows nothing, and the counters begin anew."""
    torch._dynamo.reset()
    counters.clear()
    options: Any = {"mode": "reduce-overhead", "air.cache.save": True}
    return torch.compile(function, backend="air", dynamic=True, options=options)


def full(x: Tensor, n: float) -> Tensor:
    return x * n + torch.full((3,), n)


def whole_part(x: Tensor, n: float) -> Tensor:
    return x * n + int(n)


def scaled(x: Tensor, n: float) -> Tensor:
    return x * n


def hits() -> int:
    return int(counters["aot_autograd"]["autograd_cache_hit"])


@pytest.mark.parametrize("function", [full, whole_part])
def test_N18_a_number_that_went_into_the_graph_is_compared(
    function: Callable[[Tensor, float], Tensor],
) -> None:
    for numbers in ((2.5, 4.25), (3.5, 2.5, 5.25)):
        step = compiled(function)
        for n in numbers:
            assert torch.equal(step(torch.ones(3), n), function(torch.ones(3), n)), n
    assert hits() == 1, "of 2.5 there is a graph"


def test_N18_a_graph_that_holds_for_a_part_of_the_numbers_is_used_for_those() -> None:
    compiled(whole_part)(torch.ones(3), 2.5)
    step = compiled(whole_part)
    assert torch.equal(step(torch.ones(3), 2.75), whole_part(torch.ones(3), 2.75))
    assert hits() == 1
    assert torch.equal(step(torch.ones(3), 3.75), whole_part(torch.ones(3), 3.75)), (
        "Dynamo asks the condition"
    )


def test_N18_a_number_that_stays_open_is_found_for_every_other() -> None:
    compiled(scaled)(torch.ones(3), 2.5)
    step = compiled(scaled)
    for n in (4.25, 5.25):
        assert torch.equal(step(torch.ones(3), n), scaled(torch.ones(3), n))
    assert hits() == 1, "one graph serves both"


def test_a_compilation_inside_another_leaves_it_as_it_was() -> None:
    number = open_float()
    with floats_compared():
        with floats_compared():
            pass
        assert AOTAutogradCache._filter_backed_symints([number, 3]) == [number]


def test_what_others_compile_is_kept_as_torch_keeps_it() -> None:
    compiled(scaled)(torch.ones(3), 2.5)
    assert AOTAutogradCache._filter_backed_symints([open_float()]) == []


def open_float() -> Any:
    env = ShapeEnv()
    symbol = env.create_symbol(2.5, ConstantSource("n"), dynamic_dim=DimDynamic.DYNAMIC)
    return env.create_symfloatnode(symbol, hint=2.5)
