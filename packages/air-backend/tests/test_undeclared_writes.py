"""Operators of a user that write what their schema says they read: drawn programs, with values, views and arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor

from air_fxpasses import register_undeclared_writes
from air_graph import _effects

Values: TypeAlias = list[Tensor]
ARGUMENTS = 2


@pytest.fixture(autouse=True)
def operators() -> Iterator[None]:
    """`scale` returns nothing, `add` something; each writes its first argument."""

    def scale(x: Tensor, by: float) -> None:
        x.mul_(by)

    def add(x: Tensor, y: Tensor, by: float) -> Tensor:
        return x.add_(y.clone(), alpha=by) * 2

    with torch.library._scoped_library("undeclared", "DEF") as library:
        library.define("scale(Tensor x, float by) -> ()")
        library.define("add(Tensor x, Tensor y, float by) -> Tensor")
        library.impl("scale", scale, "CompositeExplicitAutograd")
        library.impl("add", add, "CompositeExplicitAutograd")
        torch.library.register_fake("undeclared::scale", lambda x, by: None, lib=library)
        torch.library.register_fake("undeclared::add", lambda x, y, by: torch.empty_like(x), lib=library)
        for name in ("scale", "add"):
            register_undeclared_writes(f"undeclared::{name}.default", ("x",))
        yield
        for name in ("scale", "add"):
            _effects._hidden_writes.pop(f"undeclared::{name}.default")
        _effects.effects_of.cache_clear()


def scale(x: Tensor, y: Tensor, by: float) -> None:
    torch.ops.undeclared.scale(x, by)


def add(x: Tensor, y: Tensor, by: float) -> Tensor:
    found: Tensor = torch.ops.undeclared.add(x, y, by)
    return found


def put(x: Tensor, y: Tensor, by: float) -> None:
    x.add_(by)


STEPS: Sequence[Callable[[Tensor, Tensor, float], Tensor | None]] = (
    lambda x, y, by: x + y,
    lambda x, y, by: x * by,
    lambda x, y, by: x.relu(),
    lambda x, y, by: x.reshape(-1).view(4, 4),
    lambda x, y, by: x.t(),
    put,
    add,
    scale,
    scale,
)
WRITERS = {scale, add}


@dataclass(frozen=True)
class Program:
    """A list of steps, each with the places of what it takes."""

    steps: Sequence[tuple[Callable[[Tensor, Tensor, float], Tensor | None], int, int, float]]
    results: Sequence[int]

    def __call__(self, *given: Tensor) -> Values:
        values = list(given)
        for step, first, second, by in self.steps:
            made = step(values[first], values[second], by)
            values += [] if made is None else [made]
        return [*(values[place] + 1 for place in self.results), values[self.results[0]]]


def drawn(seed: int) -> Program:
    chance, count = random.Random(seed), ARGUMENTS
    steps: list[Any] = []
    while len(steps) < 4 or not any(step in WRITERS for step, *_ in steps):
        step = chance.choice(STEPS)
        steps.append(
            (step, chance.randrange(count), chance.randrange(count), chance.choice((0.5, 2.0, -1.0)))
        )
        count += step not in (put, scale)
    return Program(steps, [chance.randrange(count) for _ in range(3)])


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore")
def test_writes_that_no_schema_tells_are_seen_as_in_eager(seed: int, mode: str, device: str) -> None:
    program = drawn(seed)
    torch.manual_seed(seed)
    given = [torch.randn(4, 4, device=device) for _ in range(ARGUMENTS)]
    theirs = [x.clone() for x in given]
    wanted = [x.clone() for x in program(*theirs)]
    step = torch.compile(program, backend="air", options={"mode": mode}, dynamic=False)
    for _ in range(3):
        mine = [x.clone() for x in given]
        found = step(*mine)
        torch.testing.assert_close([*found, *mine], [*wanted, *theirs])


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_call_that_nobody_reads_the_results_of_still_writes(mode: str, device: str) -> None:
    def step(x: Tensor) -> Tensor:
        y = x + 1
        torch.ops.undeclared.scale(y, 0.0)
        torch.ops.undeclared.add(x, y, 1.0)
        return y * 2

    x = torch.ones(3, device=device)
    compiled = torch.compile(step, backend="air", options={"mode": mode})
    for _ in range(3):
        assert compiled(x).tolist() == [0.0] * 3
    assert x.tolist() == [1.0] * 3


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore")
def test_arguments_that_overlap_are_seen_too(seed: int, mode: str, device: str) -> None:
    """Traced apart, and traced over one another: torch knows of no write, and makes no base of them."""
    program = drawn(seed)
    torch.manual_seed(seed)
    given = torch.randn(8, 4, device=device)
    for rows in ((4, 4, 2, 0, 4), (1, 1, 4, 2)):
        torch._dynamo.reset()
        step = torch.compile(program, backend="air", options={"mode": mode}, dynamic=False)
        for row in rows:
            mine, theirs = given.clone(), given.clone()
            wanted = [x.clone() for x in program(theirs[:4], theirs[row : row + 4])]
            found = [x.clone() for x in step(mine[:4], mine[row : row + 4])]
            torch.testing.assert_close([*found, mine], [*wanted, theirs])
