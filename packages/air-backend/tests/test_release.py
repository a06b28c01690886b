"""A model that sleeps, or is deleted, leaves no memory in captures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_aclgraph.errors import Closed
from air_backend import pin, release
from air_backend.errors import NoModule

WIDTH = 256
CACHE = 1 << 20
"""Bytes of a cache."""
LITTLE = 1 << 18
"""What inputs, results and torch itself may take."""


class Decoder(nn.Module):
    """Weights, and a cache that each call writes."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, device=device).requires_grad_(False)
        self.cache: Any = None

    def wake(self) -> None:
        self.cache = torch.zeros(WIDTH, CACHE // 4 // WIDTH, device=self.layer.weight.device)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x).relu()
        self.cache[: len(x)].add_(hidden.sum())
        result: Tensor = hidden + self.cache[: len(x), :WIDTH]
        return result


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    with torch.inference_mode():
        yield
    torch._dynamo.reset()


def compiled(model: Callable[..., Any]) -> Any:
    return torch.compile(model, backend="air", mode="reduce-overhead")


def captures() -> int:
    return counters["air"]["captures"]


def taken(device: str) -> int:
    """Bytes that tensors and captures have."""
    module = torch.get_device_module(torch.device(device).type)
    gc.collect()
    module.synchronize()
    module.empty_cache()
    return int(module.memory_reserved())


def test_a_sleeping_model_leaves_no_cache_behind_and_wakes_up(accelerator: str) -> None:
    before, model = taken(accelerator), Decoder(accelerator)
    step, x = compiled(model), torch.randn(4, WIDTH, device=accelerator)
    for _ in range(3):
        model.wake()
        for _ in range(3):
            got = step(x)
        want = torch.relu(model.layer(x))
        torch.testing.assert_close(got - model.cache[:4, :WIDTH], want, rtol=1e-2, atol=1e-2)
        del got, want
        awake = taken(accelerator)
        model.cache = None
        release(step)
        asleep = taken(accelerator)
        assert awake - asleep >= CACHE
        assert asleep - before < 2 * CACHE + LITTLE  # segments of the weights
    assert captures() == 3


def test_a_deleted_model_leaves_no_memory_in_its_captures(accelerator: str) -> None:
    x = torch.randn(4, WIDTH, device=accelerator)
    before = taken(accelerator)
    for _ in range(3):
        model = Decoder(accelerator)
        model.wake()
        step = compiled(model)
        for _ in range(4):
            step(x)
        assert taken(accelerator) - before > CACHE
        del model, step
        assert taken(accelerator) - before <= LITTLE


def scaled(model: nn.Module) -> tuple[nn.Module, Any]:
    return model, compiled(lambda x: model(x) * 2)


def test_the_captures_of_one_model_are_released_and_others_stay(device: str) -> None:
    # of other sizes: one graph would serve two models that are alike
    (one, of_one), (_, of_other) = (scaled(nn.Linear(4, width, device=device)) for width in (4, 8))
    x = torch.randn(2, 4, device=device)
    for _ in range(2):
        of_one(x)
        of_other(x)
    assert captures() == 2
    release(one)
    of_other(x)
    assert captures() == 2
    torch.testing.assert_close(of_one(x), one(x) * 2)
    assert captures() == 3


def test_without_arguments_the_captures_of_all_functions_are_released(device: str) -> None:
    functions = [compiled(lambda x: x * 2), compiled(lambda x: x + 1)]
    x = torch.ones(3, device=device)
    for _ in range(2):
        assert [function(x).tolist() for function in functions] == [[2.0] * 3] * 2
    release()
    assert captures() == 2
    assert [function(x).tolist() for function in functions] == [[2.0] * 3] * 2
    assert captures() == 4


def test_a_pinned_call_of_a_released_capture_says_so(device: str) -> None:
    step = pin(compiled(lambda x: x * 2), torch.ones(3, device=device))
    release()
    with pytest.raises(Closed, match="captured again, dropped or closed"):
        step(torch.ones(3, device=device))


@pytest.mark.parametrize("given", [compiled, 3, None])
def test_what_has_no_parameters_is_refused(given: Any) -> None:
    with pytest.raises(NoModule, match="release takes modules, and was given an object of type"):
        release(given)
