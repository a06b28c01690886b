"""Functions and methods that torch wrote, and those that ask for names, are kept as others are."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning

X = torch.randn(3, 4)


def traced_by(function: Callable[..., Any], folder: Path) -> int:
    """How many graphs a process that begins now makes; what is computed is compared with eager."""
    torch._dynamo.reset()
    counters.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        compiled = cache_compile(function, cache_dir=folder)
        with torch.no_grad():
            torch.testing.assert_close(compiled(X), function(X))
    return int(counters["stats"].get("unique_graphs", 0))


class Own(nn.Sequential):
    """With the `forward` of torch."""


@pytest.mark.parametrize(
    "function",
    [
        nn.Sequential(nn.Linear(4, 4), nn.ReLU()).forward,
        nn.Linear(4, 4).forward,
        nn.TransformerEncoderLayer(4, 2, batch_first=True).eval().forward,
        Own(nn.Linear(4, 4)).forward,
        nn.functional.tanhshrink,
    ],
    ids=["Sequential", "Linear", "TransformerEncoderLayer", "a subclass", "a function"],
)
def test_A51_what_torch_wrote_is_kept(function: Callable[..., Any], tmp_path: Path) -> None:
    assert [traced_by(function, tmp_path) > 0 for _ in range(3)] == [True, False, False]


def test_A51_other_weights_and_layers_are_those_of_the_module_that_calls(tmp_path: Path) -> None:
    first, other, longer = (nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))) for count in (2, 2, 3))
    assert [traced_by(model.forward, tmp_path) for model in (first, other, longer, longer)] == [1, 0, 1, 0]


def named(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Tensor:
        defaults: tuple[Any, ...] = function.__defaults__ or ()
        result: Tensor = function(*args, **kwargs) * len(function.__name__) + sum(defaults)
        return result

    return inner


class Decorated(nn.Module):
    @named
    def forward(self, x: Tensor, added: int = 2) -> Tensor:
        return x + added + len(type(self).__name__)


def test_A51_a_method_whose_decorator_asks_for_its_parts_is_kept(tmp_path: Path) -> None:
    assert [traced_by(Decorated().forward, tmp_path) for _ in range(2)] == [1, 0]


def test_W28_a_class_made_inside_a_function_has_its_own_name_while_it_is_traced(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + len(type(self).__name__)

    assert [traced_by(Local().forward, tmp_path) for _ in range(2)] == [1, 0]
