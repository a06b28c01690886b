"""Operators that keep something between them, as those of serving engines do: their order is the program's.

One writes a cache that it finds in a global, another reads it, a third draws numbers, some give back what they were
given; no schema tells. They run eagerly between pieces, or inside of captures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import air_aclgraph
from air_graph.testing.strictness import results_that_are_arguments

CONTEXT: dict[str, Tensor] = {}


def write(x: Tensor) -> Tensor:
    CONTEXT["cache"].copy_(x * 2)
    return x + 1


def read(x: Tensor) -> Tensor:
    return x + CONTEXT["cache"]


def count(x: Tensor) -> Tensor:
    CONTEXT["count"].add_(1)
    return x * CONTEXT["count"]


def draw(x: Tensor) -> Tensor:
    return x + torch.rand_like(x)


def same(x: Tensor) -> Tensor:
    return x


def part(x: Tensor) -> Tensor:
    return x[:].view(-1)


KERNELS = {"write": write, "read": read, "count": count, "draw": draw, "same": same, "part": part}


@pytest.fixture(autouse=True)
def operators() -> Iterator[None]:
    """Each kernel twice: as one that runs eagerly, and as one that may be captured."""
    with torch.library._scoped_library("keeping", "DEF") as library:
        for name, kernel in KERNELS.items():
            for form in (name, f"{name}_eagerly"):
                library.define(f"{form}(Tensor x) -> Tensor")
                library.impl(form, kernel, "CompositeExplicitAutograd")
                torch.library.register_fake(f"keeping::{form}", torch.empty_like, lib=library)
            air_aclgraph.register_uncapturable(f"keeping::{name}_eagerly")
        with results_that_are_arguments(refused=False):
            yield
        for name in KERNELS:
            air_aclgraph.unregister_uncapturable(f"keeping::{name}_eagerly")


@dataclass(frozen=True)
class Program:
    """Steps, each with the value that it takes; what none of them takes is given back, for torch drops it otherwise."""

    steps: Sequence[tuple[str, int, float]]

    def __call__(self, x: Tensor, cache: Tensor) -> list[Tensor]:
        values = [x]
        for name, place, by in self.steps:
            value = values[place]
            if name == "add":
                values.append(value + by)
            elif name == "look":
                values.append(cache * by)
            elif name == "rand":
                values.append(torch.rand_like(value))
            else:
                made: Tensor = getattr(torch.ops.keeping, name)(value)
                values.append(made)
        taken = {place for _, place, _ in self.steps}
        return [value for place, value in enumerate(values) if place not in taken]


def drawn(seed: int, *, draws: bool) -> Program:
    """Some programs look at the cache themselves: a capture copies its inputs before anything in it has run, so there
    all that write the cache unsaid run eagerly."""
    chance = random.Random(seed)
    looks = chance.random() < 0.5
    names = [f"{name}_eagerly" for name in KERNELS if draws or name != "draw"]
    names += ["same", "part", *([] if looks else ["write", "read", "count"])]
    plain = ["add", *(["look"] if looks else []), *(["rand"] if draws else [])]
    steps = []
    for values in range(1, 12):
        name = chance.choice(names if chance.random() < 0.6 else plain)
        steps.append((name, chance.randrange(values), chance.choice((0.5, 1.0, 2.0))))
    return Program(steps)


def begin(device: str) -> Tensor:
    """Sets the context back, in its place: a capture has its address. Gives the cache, which is an argument as well."""
    torch.manual_seed(3)
    for name, shape in (("cache", (4,)), ("count", ())):
        CONTEXT.setdefault(f"{name} {device}", torch.zeros(shape, device=device)).zero_()
        CONTEXT[name] = CONTEXT[f"{name} {device}"]
    return CONTEXT["cache"]


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings("ignore")
def test_their_order_is_the_one_of_the_program(seed: int, mode: str, device: str) -> None:
    program = drawn(seed, draws=mode == "reduce-overhead")
    step: Any = torch.compile(program, backend="air", options={"mode": mode}, dynamic=False)
    found: list[list[list[Tensor]]] = []
    for call in (program, step):
        cache, results = begin(device), []
        for turn in range(3):
            if call is step and turn == 0:
                call(
                    torch.ones(4, device=device), begin(device)
                )  # compiled and captured: runs may be repeated
                cache = begin(device)
            results.append(
                [x.clone() for x in [*call(torch.full((4,), turn + 1.0, device=device), cache), cache]]
            )
        found.append(results)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.filterwarnings("ignore")
def test_what_an_operator_may_have_given_back_is_not_overwritten_while_it_is_used(
    mode: str, device: str
) -> None:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        value = x * 2
        kept = torch.ops.keeping.same(value)
        return kept, value.exp()

    compiled = torch.compile(step, backend="air", options={"mode": mode})
    for _ in range(3):
        x = torch.randn(4, device=device)
        torch.testing.assert_close(compiled(x), step(x))
