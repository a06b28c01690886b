"""Numbers drawn from distributions with parameters for each element, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph
from air_geir.proof import compile_call

N = 20000
WITHOUT_FAKE_KERNEL = pytest.mark.skipif(
    torch.__version__ < "2.13",
    reason="torch 2.12 has no fake kernel for it, and Dynamo ends a graph of open sizes there",
)
Draw = Callable[[Tensor], Tensor]
DRAWS: dict[str, tuple[Draw, float, float]] = {
    "gamma": (lambda x: torch._standard_gamma(x * 3), 3.0, 3.0),
    "gamma of a double": (lambda x: torch._standard_gamma(x.double() * 0.5), 0.5, 0.5),
    "poisson": (lambda x: torch.poisson(x * 4), 4.0, 4.0),
    "poisson of a half": (lambda x: torch.poisson(x.half() * 4).float(), 4.0, 4.0),
    "binomial": (lambda x: torch.binomial(x * 10, x * 0.3), 3.0, 2.1),
    "dirichlet": (lambda x: torch._sample_dirichlet(torch.stack([x, x * 3], -1))[..., 0], 0.25, 0.0375),
}


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        *((name, False) for name in DRAWS),
        pytest.param("gamma", True, marks=WITHOUT_FAKE_KERNEL),
        ("poisson", True),
    ],  # torch has no fake kernel for others
)
def test_N03_the_distribution_is_right(name: str, dynamic: bool) -> None:
    draw, mean, variance = DRAWS[name]
    run, tensors = compile_call(draw, (torch.ones(N),), {}, dynamic=dynamic)
    torch.manual_seed(3)
    drawn = run(*tensors)[0]
    assert drawn.dtype == draw(torch.ones(3)).dtype
    assert abs(drawn.mean().item() - mean) < 5 * (variance / N) ** 0.5
    assert abs(drawn.var().item() - variance) < 0.1 * variance
    again = run(*tensors)[0]
    torch.manual_seed(3)
    assert torch.equal(run(*tensors)[0], drawn)
    assert not torch.equal(again, drawn)


def test_N03_each_number_is_drawn_with_its_own_parameter() -> None:
    run, tensors = compile_call(torch.poisson, (torch.tensor([[1.0, 100.0]]).repeat(N, 1),), {})
    torch.testing.assert_close(run(*tensors)[0].mean(0), torch.tensor([1.0, 100.0]), rtol=0.03, atol=0)


def test_N03_what_is_drawn_from_a_gamma_distribution_is_never_zero() -> None:
    """Its logarithm is taken; for small parameters most numbers are smaller than any float."""
    parameters = torch.full((N, 2), 1e-3)
    for draw in (torch._standard_gamma, torch._sample_dirichlet):
        run, tensors = compile_call(draw, (parameters,), {})
        assert run(*tensors)[0].log().isfinite().all()


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
def test_N03_the_gradient_of_a_gamma_distribution_is_of_the_numbers_that_were_drawn() -> None:
    torch._dynamo.reset()
    alpha = torch.linspace(0.3, 9, 40).requires_grad_()
    compiled = torch.compile(
        torch._standard_gamma, backend=aot_autograd(fw_compiler=compile_graph), fullgraph=True
    )
    drawn = compiled(alpha)
    drawn.sum().backward()
    expected = torch._standard_gamma_grad(alpha.detach(), drawn.detach())
    torch.testing.assert_close(alpha.grad, expected)
