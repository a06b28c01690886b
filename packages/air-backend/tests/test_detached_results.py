"""A result that is detached has no gradient, though another result in the same memory has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor


def beside_its_value(x: Tensor) -> tuple[Tensor, ...]:
    y = x * x
    return y, y.detach().t()


def several(x: Tensor) -> tuple[Tensor, ...]:
    y = x * x
    z = y.detach()
    return y, z, z.t(), z.view(-1)


def of_several_results(x: Tensor) -> tuple[Tensor, ...]:
    y, _ = torch._foreach_mul([x, x], [x, x])
    return y.contiguous(), y.detach().t()


def between_pieces(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.linalg.qr(x)[0] * 2
    return y, y.detach().t(), x.sum()


@pytest.mark.parametrize("function", [beside_its_value, several, of_several_results, between_pieces])
@pytest.mark.parametrize(
    "options",
    [
        {"mode": "reduce-overhead"},
        {"mode": "max-autotune"},
        {"mode": "max-autotune", "experimental_config.remove_noop_ops": False},
        {"debug.run_eagerly": True},
    ],
    ids=lambda options: " ".join(f"{name}={value}" for name, value in options.items()),
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what runs between pieces is told
def test_N25_only_what_has_a_gradient_in_eager_has_one(
    function: Callable[[Tensor], tuple[Tensor, ...]], options: Mapping[str, Any]
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", options=dict(options), dynamic=False)
    for number in range(3):
        x = torch.randn(
            3, 3, generator=torch.Generator().manual_seed(number), requires_grad=True, dtype=torch.float64
        )
        wanted, found = function(x), compiled(x)
        assert [each.requires_grad for each in found] == [each.requires_grad for each in wanted]
        torch.testing.assert_close(found, wanted)
        found[1].mul_(2)  # one memory, as in eager
        torch.testing.assert_close(found[0], wanted[0] * 2)
