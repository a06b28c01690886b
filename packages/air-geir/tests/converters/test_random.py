"""Random operators: the right distribution, and a stream that follows the generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import compile_call

N = 20000
Draw = Callable[[torch.Tensor], torch.Tensor]


def prims_normal(shape: list[int], **options: Any) -> torch.Tensor:
    drawn: torch.Tensor = torch.ops.prims.normal(
        shape, **options, device=torch.device("cpu"), requires_grad=False
    )
    return drawn


UNIFORM: list[tuple[str, Draw, float, float]] = [
    ("rand", lambda x: torch.rand(N), 0.5, 1 / 12),
    ("rand_like", lambda x: torch.rand_like(x), 0.5, 1 / 12),
    ("randn", lambda x: torch.randn(N), 0.0, 1.0),
    ("randn_like", lambda x: torch.randn_like(x), 0.0, 1.0),
    ("bernoulli_p", lambda x: torch.ops.aten.bernoulli.p(x, 0.25), 0.25, 0.1875),
    ("bernoulli", lambda x: torch.bernoulli(x * 0.5), 0.5, 0.25),
    ("uniform", lambda x: torch.ops.aten.uniform(x, -1.0, 3.0), 1.0, 16 / 12),
    ("normal", lambda x: torch.ops.aten.normal_functional(x, 2.0, 0.5), 2.0, 0.25),
    ("normal_double", lambda x: torch.ops.aten.normal_functional(x.double(), 2.0, 0.5), 2.0, 0.25),
    ("normal_half", lambda x: torch.ops.aten.normal_functional(x.half(), 2.0, 0.5).float(), 2.0, 0.25),
    ("randn_double", lambda x: torch.randn(N, dtype=torch.float64), 0.0, 1.0),
    ("prims_normal", lambda x: prims_normal([N], mean=2.0, std=0.5, dtype=torch.float32), 2.0, 0.25),
    ("prims_normal_double", lambda x: prims_normal([N], mean=2.0, std=0.5, dtype=torch.float64), 2.0, 0.25),
    ("exponential_half", lambda x: torch.ops.aten.exponential(x.half(), 2.0).float(), 0.5, 0.25),
    ("exponential", lambda x: torch.ops.aten.exponential(x, 2.0), 0.5, 0.25),
    ("randint", lambda x: torch.randint(0, 10, (N,)).float(), 4.5, 8.25),
    ("rand_double", lambda x: torch.rand(N, dtype=torch.float64), 0.5, 1 / 12),
    ("randint_large", lambda x: torch.randint(-(2**40), 2**40, (N,)).double() / 2**41, 0.0, 1 / 12),
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


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (-(2**62), 2**62 - 1), (5, 2**25)])
def test_whole_numbers_from_a_large_range_differ_in_every_digit(low: int, high: int) -> None:
    run, _ = compile_call(lambda: torch.randint(low, high, (N,)), (), {})
    drawn = run()[0]
    assert drawn.min() >= low
    assert drawn.max() < high
    assert (drawn % 2).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (drawn % 997).double().mean().item() == pytest.approx(498, abs=15)


def test_whole_numbers_below_a_size_that_varies_stay_below_it() -> None:
    run, _ = compile_call(lambda x: torch.randint(0, x.shape[0], (N,)), (torch.ones(7),), {}, dynamic=True)
    assert run(torch.ones(5))[0].unique().tolist() == [0, 1, 2, 3, 4]


def test_a_range_wider_than_a_signed_number_is_left_to_eager() -> None:
    with pytest.raises(UnsupportedGraphError, match="apart"):
        compile_call(lambda: torch.randint(-(2**63), 2**63 - 1, (3,)), (), {})


def test_doubles_have_digits_behind_those_of_a_float() -> None:
    run, _ = compile_call(lambda: torch.rand(N, dtype=torch.float64), (), {})
    drawn = run()[0]
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert (drawn.float().double() != drawn).double().mean() > 0.9


def test_normal_doubles_have_digits_behind_those_of_a_float() -> None:
    def both(x: torch.Tensor) -> Any:
        return torch.randn(N, dtype=torch.float64), torch.ops.aten.normal_functional(x, 1.0, 3.0)

    run, tensors = compile_call(both, (torch.ones(N, dtype=torch.float64),), {})
    for drawn in run(*tensors):
        assert (drawn.float().double() != drawn).double().mean() > 0.9
        standard = (drawn - drawn.mean()) / drawn.std()
        assert (standard.abs() < 1).double().mean().item() == pytest.approx(0.6827, abs=0.02)
        assert (standard**4).mean().item() == pytest.approx(3, abs=0.3)


def test_normal_numbers_round_a_mean_of_each_element() -> None:
    """`torch.normal` of tensors is traced as `prims.normal`."""
    mean, spread = torch.tensor([0.0, 100.0]).repeat(N), torch.tensor([1.0, 3.0]).repeat(N)
    run, tensors = compile_call(torch.normal, (mean, spread), {})
    drawn = run(*tensors)[0].reshape(N, 2)
    torch.testing.assert_close(drawn.mean(0), torch.tensor([0.0, 100.0]), atol=0.1, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.tensor([1.0, 3.0]), atol=0.1, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_waiting_times_are_never_zero(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their logarithm is taken, as in `gumbel_softmax`: one zero among millions would be NaN everywhere."""
    monkeypatch.setattr(
        "air_geir.converters.random.uniform", lambda ctx, shape, dtype: ctx.fill(shape, 0, dtype)
    )
    run, tensors = compile_call(
        lambda x: torch.ops.aten.exponential(x).log(), (torch.ones(50, dtype=dtype),), {}
    )
    assert torch.isfinite(run(*tensors)[0]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("low", "high"), [(1, 2), (-2, -1), (0, 0.3), (0.3, 0.30001), (2, 2)])
def test_the_upper_bound_is_not_drawn(dtype: torch.dtype, low: float, high: float) -> None:
    x = torch.zeros(10 * N, dtype=dtype)
    run, tensors = compile_call(lambda x: torch.ops.aten.uniform(x, low, high), (x,), {})
    drawn = run(*tensors)[0]
    first, end = torch.tensor([low, high], dtype=dtype)
    assert drawn.dtype == dtype
    assert first <= drawn.min()
    assert drawn.max() < end or first == end == drawn.max()
