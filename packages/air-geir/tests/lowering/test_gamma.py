"""The gamma function and its derivatives are in the graph, as accurate as torch's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph
from air_geir.proof import check_call

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    **{f"polygamma {n}": lambda x, n=n: torch.polygamma(n, x) for n in range(4)},  # type: ignore[misc]
    "mvlgamma": lambda x: torch.mvlgamma(x.abs() + 2, 3),
}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
_inf = float("inf")
SPECIAL = torch.tensor([0.0, -0.0, 1, 2, 3, 10, 0.5, 1.5, 2.5, 1e-30, 1e30, 3e38, _inf, float("nan")])


def numbers(dtype: torch.dtype) -> Tensor:
    """From far below the zeros of the functions to far above them."""
    return torch.cat([torch.linspace(1e-3, 12, 999), torch.logspace(-4, 6, 99)]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_N03_functions_of_gamma_give_what_eager_gives(name: str, dtype: torch.dtype) -> None:
    check_call(FUNCTIONS[name], (numbers(dtype),), {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_N03_functions_of_gamma_take_sizes_that_vary(name: str) -> None:
    check_call(FUNCTIONS[name], (numbers(torch.float32).reshape(2, -1).mT,), {}, dynamic=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["lgamma", "digamma", "polygamma 1", "polygamma 2"])
def test_N03_poles_infinities_and_nan_of_gamma_are_those_of_eager(name: str, dtype: torch.dtype) -> None:
    check_call(FUNCTIONS[name], (SPECIAL.to(dtype),), {})


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_N03_gamma_of_negative_numbers_is_that_of_eager(name: str) -> None:
    """In double precision: near a pole the digits that a number has decide the result."""
    check_call(FUNCTIONS[name], (torch.linspace(-40.03, -0.01, 777, dtype=torch.float64),), {})
    check_call(FUNCTIONS[name], (torch.tensor([-1.0, -2.0, -30.0, -_inf]),), {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_N03_the_logarithm_of_gamma_of_tiny_and_of_vast_negative_numbers_is_that_of_eager(
    dtype: torch.dtype,
) -> None:
    """Their squares are no numbers any more, and neither is the logarithm of vast ones."""
    tiny = [-torch.finfo(dtype).tiny, -1e-37, -1e-30, -1e-20, -1e-4, -0.3, -0.49, -0.5]
    check_call(torch.lgamma, (torch.tensor([*tiny, -torch.finfo(dtype).max], dtype=dtype),), {})


@pytest.mark.parametrize("order", [170, 171, 200])
def test_N03_polygamma_of_an_order_whose_factorial_is_no_float_is_that_of_eager(order: int) -> None:
    check_call(lambda x: torch.polygamma(order, x), (torch.tensor([0.5, 2.0, 9.0]),), {})


def test_N03_the_logarithm_of_gamma_keeps_its_digits_near_its_zeros() -> None:
    """There it is almost the distance from one, or from two: an absolute error would be all of it."""
    near = torch.tensor([1e-6, -1e-6, 3e-4, -3e-4])
    x = torch.cat([1 + near, 2 + near])
    run = check_call(torch.lgamma, (x,), {})
    torch.testing.assert_close(run(x)[0].double(), x.double().lgamma(), rtol=1e-6, atol=0)


def test_N03_gamma_of_whole_numbers_is_of_the_default_type() -> None:
    for name in ("lgamma", "digamma", "polygamma 1", "polygamma 2"):
        check_call(FUNCTIONS[name], (torch.arange(1, 9),), {})


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize(("name", "dynamic"), [("Beta", False), ("Gamma", True), ("StudentT", False)])
def test_N03_the_likelihood_of_a_distribution_of_gamma_trains_in_one_graph_each_way(
    name: str, dynamic: bool
) -> None:
    torch.manual_seed(0)
    kind: Any = getattr(torch.distributions, name)
    given = [torch.rand(3, 4) + 0.5 for _ in kind.arg_constraints]
    value = torch.rand(3, 4)
    value = value / value.sum(-1, keepdim=True)

    def loss(*parameters: Tensor) -> Tensor:
        made = kind(*parameters, validate_args=False)
        total: Tensor = made.log_prob(value).sum() + made.entropy().sum()
        return total.exp()

    def gradients(function: Callable[..., Tensor]) -> list[Tensor | None]:
        leaves = [x.clone().requires_grad_() for x in given]
        result = function(*leaves)
        result.backward()
        return [result.detach(), *(x.grad for x in leaves)]

    torch._dynamo.reset()
    compiled = torch.compile(
        loss, backend=aot_autograd(fw_compiler=compile_graph), fullgraph=True, dynamic=dynamic
    )
    torch.testing.assert_close(gradients(compiled), gradients(loss), rtol=1e-4, atol=1e-5)
