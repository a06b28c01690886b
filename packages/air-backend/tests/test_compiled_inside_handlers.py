"""A handler of operators, of a mode or of a class of tensors, may call compiled functions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

WAYS: tuple[dict[str, Any], ...] = (
    {"mode": "reduce-overhead"},
    {"mode": "reduce-overhead", "air.kernels": "inductor"},
    {"mode": "max-autotune"},
)


def writes(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(1)
    x.mul_(y)
    return y.relu() + x


def pools(x: Tensor) -> Tensor:
    values, places = torch.nn.functional.adaptive_max_pool3d(x, 2, return_indices=True)
    return values + places


class Answers(TorchDispatchMode):
    """Answers each sum with what a function gives for its operand."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say it
        self.function = function

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.function(args[0]) if func is torch.ops.aten.sum.default else func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("function", "trained"), [(writes, False), (pools, False), (pools, True)])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
def test_a_function_compiled_and_called_there_gives_what_eager_gives(
    way: dict[str, Any],
    function: Callable[[Tensor], Tensor],
    trained: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", options=way)
    for _ in range(3):
        x = torch.randn(2, 3, 4, 5, 6, requires_grad=trained)
        y = x.detach().clone().requires_grad_(x.requires_grad)
        with caplog.at_level(logging.WARNING), Answers(compiled):
            found = x.sum()
        with Answers(function):
            expected = y.sum()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(x, y)
    assert not [record for record in caplog.records if "Inductor failed" in record.getMessage()]
