"""Samples of distributions in a compiled function: also where torch (before 2.13) cannot trace them for open sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Beta, Dirichlet, Gamma, StudentT

MODES = ("reduce-overhead", "max-autotune")
N = 20000
#: Functions with the mean and the variance of what they give for ones.
DRAWS: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "gamma": (lambda x: Gamma(x * 3, x * 2).rsample() * 2, 3.0, 3.0),
    "beta": (lambda x: Beta(x * 2, x * 2).rsample() + 1, 1.5, 0.05),
    "dirichlet": (lambda x: Dirichlet(torch.stack([x, x * 3], -1)).rsample()[..., 0] * 4, 1.0, 0.6),
    "student": (lambda x: StudentT(x * 8).rsample() + x, 1.0, 8 / 6),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DRAWS)
def test_N23_samples_with_a_gradient_are_of_their_distribution(name: str, mode: str, dynamic: bool) -> None:
    draw, mean, variance = DRAWS[name]
    torch._dynamo.reset()
    run = torch.compile(draw, backend="air", mode=mode, dynamic=dynamic)
    for number in (N, N + 1):
        x = torch.ones(number, requires_grad=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "graph_.* is cut")  # the engine has no gradient of a dirichlet
            torch.manual_seed(number)
            drawn = run(x)
        (given,) = torch.autograd.grad(drawn.sum(), x)
        torch.manual_seed(number)
        expected = draw(x)
        (wanted,) = torch.autograd.grad(expected.sum(), x)
        if mode == "reduce-overhead":  # draws the numbers of eager
            torch.testing.assert_close((drawn, given), (expected, wanted))
        torch.testing.assert_close(drawn.mean().item(), mean, rtol=0, atol=6 * (variance / N) ** 0.5)
        torch.testing.assert_close(drawn.var().item(), variance, rtol=0.2, atol=0)
        torch.testing.assert_close(given.mean(), wanted.mean(), rtol=0.1, atol=0.05)
