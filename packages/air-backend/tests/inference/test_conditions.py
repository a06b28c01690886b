"""A graph of `cache_compile` is called where it holds: which function, class or member of an enumeration is given."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning


class Kind(enum.Enum):
    UP = 1
    DOWN = 2


class Order(enum.IntEnum):
    UP = 1
    DOWN = 2


X = torch.tensor([-1.0, 1.0])


def by_kind(x: Tensor, kind: Any) -> Tensor:
    return x + 1 if kind in (Kind.UP, Order.UP) else x - 1


def by_function(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return function(x)


def by_class(x: Tensor, kind: type[nn.Module]) -> Tensor:
    return x * 2 if kind is nn.ReLU else x * 3


class Model(nn.Module):
    activation: Any = torch.relu

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)
        nn.init.eye_(self.linear.weight)

    def step(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.activation(self.linear(x)))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        yield


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (by_kind, (Kind.UP, Kind.DOWN)),
        (by_kind, (Order.UP, Order.DOWN)),
        (by_function, (torch.relu, torch.neg)),
        (by_function, (functional.relu, functional.silu)),
        (by_function, (lambda x: x + 1, lambda x: x + 2)),
        (by_class, (nn.ReLU, nn.SiLU)),
    ],
)
def test_arguments_that_are_no_numbers_are_conditions(
    function: Callable[..., Any], values: tuple[Any, ...], mode: str, tmp_path: Path
) -> None:
    for _ in range(2):  # traced, and read again
        run = cache_compile(function, mode=mode, cache_dir=tmp_path)
        for value in (*values, *values):
            assert torch.equal(run(X, value), function(X, value))
    assert len([path for path in tmp_path.rglob("compiled_module*") if path.is_file()]) == len(values)


def test_attributes_that_are_no_numbers_are_conditions(tmp_path: Path) -> None:
    model = Model()
    for _ in range(2):
        run = cache_compile(model.step, mode="reduce-overhead", cache_dir=tmp_path)
        for activation in (torch.relu, torch.neg, torch.relu):
            model.activation = activation
            assert torch.equal(run(X), model.step(X))


def test_a_model_with_a_type_as_attribute_is_read_from_its_file(tmp_path: Path) -> None:
    model = Model()
    model.kept_type = torch.float32  # type: ignore[assignment]  # no module
    for _ in range(3):
        run = cache_compile(model.step, mode="reduce-overhead", cache_dir=tmp_path)
        assert torch.equal(run(X), model.step(X))
        torch._dynamo.reset()
    assert len([path for path in tmp_path.rglob("compiled_module*") if path.is_file()]) == 1


def of_a_local_kind() -> nn.Module:
    class Here(enum.Enum):
        TWO = 2

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kind = Here.TWO

        def forward(self, x: Tensor) -> Tensor:
            return x * self.kind.value

    return Chosen()


def test_A51_a_member_of_an_enumeration_made_inside_a_function_is_compared_by_its_own_name(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        torch._dynamo.reset()
        cached = cache_compile(of_a_local_kind().forward, cache_dir=tmp_path)
        for _ in range(2):
            torch.testing.assert_close(cached(X), X * 2)
        assert [path.name for path in cached.folder.iterdir()] == ["compiled_module"], "traced once"
