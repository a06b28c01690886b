"""In reduce-overhead every way to draw gives the numbers of eager, and leaves the generator where eager does.

In max-autotune the engine draws numbers of its own: they have eager's distribution, other ones in each call, and the
same ones again after the same seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributions as d
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

NUMBERS, MOST_CALLS = 6000, 600  # of a sample, and how many calls make one
FURTHEST_APART: Final = 0.07  # two distributions of one sample each: by chance one pair in a million is
#: Whole rows are drawn at once.
ROWS: Final = {"dropout1d": 0.2, "feature_alpha_dropout": 0.2}
CALLS = 8  # a capture, replays with copied outputs, and replays with lent ones

#: Of numbers between 0 and 1.
DRAWS: Final[dict[str, Callable[[Tensor], Any]]] = {
    "bernoulli": torch.bernoulli,
    "bernoulli of a number": lambda x: torch.bernoulli(x, 0.3),
    "bernoulli_": lambda x: x.clone().bernoulli_(x),
    "exponential_": lambda x: x.clone().exponential_(2.0),
    "geometric_": lambda x: x.clone().geometric_(0.3),
    "log_normal_": lambda x: x.clone().log_normal_(1, 2),
    "cauchy_": lambda x: x.clone().cauchy_(),
    "random_": lambda x: x.clone().random_(),
    "random_ below": lambda x: x.clone().random_(10),
    "random_ between": lambda x: x.clone().random_(3, 9),
    "uniform_": lambda x: x.clone().uniform_(2, 3),
    "normal_": lambda x: x.clone().normal_(2, 3),
    "normal of a tensor and a number": lambda x: torch.normal(x, 2.0),
    "normal of two tensors": lambda x: torch.normal(x, x),
    "normal of a number and a tensor": lambda x: torch.normal(1.0, x),
    "normal of two numbers": lambda x: torch.normal(1.0, 2.0, (3,), device=x.device),
    "normal into memory": lambda x: torch.normal(x, 2.0, out=torch.empty_like(x)),
    "multinomial": lambda x: torch.multinomial(x, 3),
    "multinomial with replacement": lambda x: torch.multinomial(x, 20, replacement=True),
    "poisson": lambda x: torch.poisson(x * 5),
    "binomial": lambda x: torch.binomial(x * 10 // 1, x),
    "rand": lambda x: torch.rand(4, device=x.device),
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(4, device=x.device),
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(3, 9, (5,), device=x.device),
    "randint_like": lambda x: torch.randint_like(x, 3, 9),
    "randperm": lambda x: torch.randperm(9, device=x.device),
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout1d": lambda x: F.dropout1d(x, 0.4),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.4, training=True),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "attention with dropout": lambda x: F.scaled_dot_product_attention(*(x[None, None],) * 3, dropout_p=0.4),
    "gamma": lambda x: torch._standard_gamma(x + 0.5),
    "dirichlet": lambda x: torch._sample_dirichlet(x + 0.5),
    "kaiming_normal_": lambda x: nn.init.kaiming_normal_(x.clone()),
    "trunc_normal_": lambda x: nn.init.trunc_normal_(x.clone()),
    "xavier_uniform_": lambda x: nn.init.xavier_uniform_(x.clone()),
    "Normal": lambda x: d.Normal(x, x + 1).rsample(),
    "Bernoulli": lambda x: d.Bernoulli(x).sample(),
    "Categorical": lambda x: d.Categorical(x).sample(),
    "Exponential": lambda x: d.Exponential(x + 1).sample(),
    "Uniform": lambda x: d.Uniform(x, x + 1).sample(),
    "Laplace": lambda x: d.Laplace(x, x + 1).sample(),
    "Gamma": lambda x: d.Gamma(x + 1, x + 1).sample(),
    "Gumbel": lambda x: d.Gumbel(x + 1, x + 1).sample(),
    "Multinomial": lambda x: d.Multinomial(8, x + 0.1).sample(),
    "Geometric": lambda x: d.Geometric(x * 0.9 + 0.05).sample(),
    "Poisson": lambda x: d.Poisson(x).sample(),
}


def drawn(call: Callable[[Tensor], Any], device: str) -> list[Tensor]:
    """What each call gives, and what is drawn after it."""
    seen = []
    for seed in range(CALLS):
        torch.manual_seed(seed)
        result = call(torch.rand(6, 8).to(device))
        seen += [result.clone(), torch.rand(2, device=device)]
    return seen


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
@pytest.mark.parametrize("name", DRAWS)
def test_N25_the_numbers_of_eager_are_drawn(name: str, device: str) -> None:
    wanted = drawn(DRAWS[name], device)
    torch._dynamo.reset()
    found = drawn(torch.compile(DRAWS[name], backend="air", options={"mode": "reduce-overhead"}), device)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def sample(call: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """What many calls give, in order."""
    torch.manual_seed(1)
    found: list[Tensor] = []
    while len(found) < MOST_CALLS and sum(each.numel() for each in found) < NUMBERS:
        found.append(call(x).detach().cpu().flatten().double())
    assert not torch.equal(found[0], found[1]) or found[0].numel() < 9, "each call draws others"
    return torch.cat(found).sort().values


def apart(one: Tensor, other: Tensor) -> float:
    """The statistic of Kolmogorov and Smirnov: how far apart the distributions of two sorted samples are at most."""
    places = torch.cat([one, other])
    shares = [torch.searchsorted(each, places, right=True) / len(each) for each in (one, other)]
    return float((shares[0] - shares[1]).abs().max())


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
@pytest.mark.parametrize("name", DRAWS)
def test_the_engine_draws_from_the_distribution_of_eager(name: str, device: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(6, 8).to(device)
    compiled = torch.compile(DRAWS[name], backend="air", options={"mode": "max-autotune"})
    again = []
    for _ in range(2):
        torch.manual_seed(3)
        again += [compiled(x).clone() for _ in range(2)]
    assert torch.equal(again[0], again[2])
    assert torch.equal(again[1], again[3])
    assert apart(sample(compiled, x), sample(DRAWS[name], x)) < ROWS.get(name, FURTHEST_APART)


def test_the_judge_sees_another_distribution() -> None:
    x = torch.rand(6, 8)
    assert apart(sample(torch.rand_like, x), sample(torch.rand_like, x)) == 0
    assert apart(sample(torch.rand_like, x), sample(lambda x: torch.rand_like(x) * 1.1, x)) > FURTHEST_APART
    assert apart(sample(torch.bernoulli, x), sample(lambda x: torch.bernoulli(x * 0.8), x)) > FURTHEST_APART
