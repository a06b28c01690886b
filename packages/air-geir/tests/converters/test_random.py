"""Random operators: the right distribution, and a stream that follows the generator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from air_geir.proof import compile_call

N = 20000
Draw = Callable[[torch.Tensor], torch.Tensor]

UNIFORM: list[tuple[str, Draw, float, float]] = [
    ("rand", lambda x: torch.rand(N), 0.5, 1 / 12),
    ("rand_like", lambda x: torch.rand_like(x), 0.5, 1 / 12),
    ("randn", lambda x: torch.randn(N), 0.0, 1.0),
    ("randn_like", lambda x: torch.randn_like(x), 0.0, 1.0),
    ("bernoulli_p", lambda x: torch.ops.aten.bernoulli.p(x, 0.25), 0.25, 0.1875),
    ("bernoulli", lambda x: torch.bernoulli(x * 0.5), 0.5, 0.25),
    ("uniform", lambda x: torch.ops.aten.uniform(x, -1.0, 3.0), 1.0, 16 / 12),
    ("normal", lambda x: torch.ops.aten.normal_functional(x, 2.0, 0.5), 2.0, 0.25),
    ("exponential", lambda x: torch.ops.aten.exponential(x, 2.0), 0.5, 0.25),
    ("randint", lambda x: torch.randint(0, 10, (N,)).float(), 4.5, 8.25),
    ("dropout", lambda x: torch.ops.aten.native_dropout(x, 0.2, True)[0], 1.0, 0.25),
]


@pytest.mark.parametrize(("name", "draw", "mean", "variance"), UNIFORM, ids=[row[0] for row in UNIFORM])
def test_the_distribution_is_right(name: str, draw: Draw, mean: float, variance: float) -> None:
    run, tensors = compile_call(draw, (torch.ones(N),), {})
    torch.manual_seed(3)
    drawn = run(*tensors)[0]
    assert drawn.shape == (N,)
    assert abs(drawn.mean().item() - mean) < 5 * (variance / N) ** 0.5
    assert abs(drawn.var().item() - variance) < 0.1 * max(variance, 0.1)


@pytest.mark.parametrize(("name", "draw", "mean", "variance"), UNIFORM, ids=[row[0] for row in UNIFORM])
def test_the_generator_decides_what_is_drawn(name: str, draw: Draw, mean: float, variance: float) -> None:
    run, tensors = compile_call(draw, (torch.ones(N),), {})
    torch.manual_seed(5)
    first, second = run(*tensors)[0], run(*tensors)[0]
    torch.manual_seed(5)
    assert torch.equal(first, run(*tensors)[0])
    assert not torch.equal(first, second)


def test_two_draws_of_one_graph_differ() -> None:
    run, tensors = compile_call(lambda x: (torch.rand_like(x), torch.rand_like(x)), (torch.ones(50),), {})
    first, second = run(*tensors)
    assert not torch.equal(first, second)


def test_a_permutation_holds_every_number_once() -> None:
    run, _ = compile_call(lambda: torch.randperm(30), (), {})
    assert torch.equal(run()[0].sort().values, torch.arange(30))


def test_multinomial_draws_only_what_is_possible() -> None:
    weights = torch.tensor([[0.0, 1.0, 3.0]])
    run, tensors = compile_call(lambda w: torch.multinomial(w, 2), (weights,), {})
    assert set(run(*tensors)[0].flatten().tolist()) == {1, 2}
