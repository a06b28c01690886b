"""Sizes of arguments that torch was told not to know (`mark_unbacked`): each call knows them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.utils import counters

import air_aclgraph
from air_backend.inference import set_dim_buckets, set_dim_gears
from air_fxpasses.errors import DeclarationRefused

MODES = ["reduce-overhead", "max-autotune"]


@pytest.fixture(autouse=True)
def operator() -> Iterator[None]:
    """One that runs eagerly between pieces, in both modes."""
    with torch.library._scoped_library("unknown_sizes", "DEF") as library:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", torch.sin, "CompositeExplicitAutograd")
        torch.library.register_fake("unknown_sizes::op", torch.empty_like, lib=library)
        air_aclgraph.register_uncapturable("unknown_sizes::op")
        yield
        air_aclgraph.unregister_uncapturable("unknown_sizes::op")


def compiled(function: Any, mode: str, **options: object) -> Any:
    given: dict[str, Any] = {"mode": mode, **options}
    return torch.compile(function, backend="air", options=given, fullgraph=True)


def marked(x: Tensor) -> Tensor:
    mark_unbacked(x, 0)
    return x


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_of_them_is_one_piece(mode: str, device: str) -> None:
    weight = torch.randn(8, 8, device=device)
    step = compiled(
        lambda x: (x.exp() @ weight).relu() * x.shape[0],
        mode,
        **{"air.unsupported": "error", "air.uncapturable": "error"},
    )
    for rows in (5, 7, 5, 3):
        x = torch.randn(rows, 8, device=device)
        torch.testing.assert_close(step(marked(x)), (x.exp() @ weight).relu() * rows)


@pytest.mark.filterwarnings("ignore:graph_")
def test_beside_an_eager_operator_the_rest_is_captured(device: str) -> None:
    weight = torch.randn(8, 8, device=device)

    def step(x: Tensor) -> Tensor:
        found: Tensor = torch.ops.unknown_sizes.op(x.exp() @ weight)
        return found @ weight + 1

    run = compiled(step, "reduce-overhead")
    counters.clear()
    for rows in (5, 7, 5, 7, 5):
        x = torch.randn(rows, 8, device=device)
        torch.testing.assert_close(run(marked(x)), step(x))
    assert counters["air"]["captures"] == 4  # two pieces, two sizes
    assert counters["air"]["replays"] > 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore")
def test_programs_with_them_do_what_eager_does(seed: int, mode: str, device: str) -> None:
    chance = random.Random(seed)
    steps = [chance.choice(["exp", "op", "sum", "cat", "double", "find", "write"]) for _ in range(6)]

    def step(x: Tensor, state: Tensor) -> list[Tensor]:
        values = [x]
        for name in steps:
            value = values[chance_of[name] % len(values)]
            if name == "exp":
                values.append(value.tanh())
            elif name == "op":
                values.append(torch.ops.unknown_sizes.op(value))
            elif name == "sum":
                values.append(value + value.sum(0, keepdim=True))
            elif name == "cat":
                values.append(torch.cat([value, x]))
            elif name == "double":
                values.append(value * value.shape[0])
            elif name == "find":
                values.append(value[value[:, 0] > 0])
            else:
                state.add_(value.mean())
        return values[1:]

    chance_of = {name: chance.randrange(6) for name in steps}
    run, mine, theirs = compiled(step, mode), torch.zeros(3, device=device), torch.zeros(3, device=device)
    for rows in (5, 7, 5, 7):
        x = torch.randn(rows, 4, device=device)
        torch.testing.assert_close(run(marked(x.clone()), mine), step(x, theirs))
        torch.testing.assert_close(mine, theirs, equal_nan=True)


@pytest.mark.filterwarnings("ignore:graph_")
def test_torch_makes_a_check_of_such_a_size_and_the_rest_is_compiled(device: str) -> None:
    def step(x: Tensor) -> Tensor:
        torch._check(x.shape[0] <= 6)
        return x * 2

    x = torch.randn(5, 4, device=device)
    torch.testing.assert_close(compiled(step, "max-autotune")(marked(x)), x * 2)


@pytest.mark.parametrize(
    ("mode", "declare"), [("max-autotune", set_dim_gears), ("reduce-overhead", set_dim_buckets)]
)
def test_declared_sizes_and_sizes_that_torch_may_not_know_are_refused(
    mode: str, declare: Any, device: str
) -> None:
    x = marked(torch.randn(4, 4, device=device))
    declare(x, {0: [2, 4, 8]})
    with pytest.raises(Exception, match="mark_unbacked") as caught:
        compiled(lambda x: x + 1, mode)(x)
    assert isinstance(caught.value.__cause__ or caught.value, (DeclarationRefused, RuntimeError))
