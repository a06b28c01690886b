"""Of what a class or a function holds, a file of `cache_compile` is for what was there when its graph was traced."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from air_backend.inference import cache_compile


class Base(nn.Module):
    factors: Any

    def forward(self, x: Tensor) -> Any:
        return x * self.factors[0]


def by_list(number: int) -> Any:
    class Model(Base):
        factors = [number]

    return Model().forward


def by_dictionary(number: int) -> Any:
    class Model(Base):
        factors = {0: number}

    return Model().forward


def by_object(number: int) -> Any:
    class Model(Base):
        factors = types.MappingProxyType({})
        held = types.SimpleNamespace(factor=number)

        def forward(self, x: Tensor) -> Any:
            return x * self.held.factor

    return Model().forward


def by_tensor(number: int) -> Any:
    class Model(Base):
        factors = [torch.ones(number)]

        def forward(self, x: Tensor) -> Any:
            return x * self.factors[0].shape[0]

    return Model().forward


def by_type(number: int) -> Any:
    class Model(Base):
        factors = [number]

        def forward(self, x: Tensor) -> Any:
            return x * type(self).factors[0]

    return Model().forward


def by_default(number: int) -> Any:
    factors = [number]

    class Model(Base):
        def scaled(self, x: Tensor, factors: list[int] = factors) -> Any:
            return x * factors[0]

        def forward(self, x: Tensor) -> Any:
            return self.scaled(x)

    return Model().forward


def by_closure_of_a_method(number: int) -> Any:
    factors = [number]

    def scaling(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(method)
        def scaled(self: Any, x: Tensor) -> Tensor:
            return method(self, x) * factors[0]

        return scaled

    class Model(Base):
        @scaling
        def plus_one(self, x: Tensor) -> Tensor:
            return x + 1

        def forward(self, x: Tensor) -> Any:
            return self.plus_one(x)

    return Model().forward


def by_part(number: int) -> Any:
    class Part(Base):
        factors = [number]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Part()

        def forward(self, x: Tensor) -> Any:
            return self.part(x)

    return Model().forward


UNSEEN = pytest.mark.skipif(
    torch.__version__ < "2.12",
    reason='Dynamo itself, with backend="eager", has no condition on it in torch 2.11',
)


@pytest.mark.parametrize(
    "make",
    [
        by_list,
        by_dictionary,
        by_object,
        by_tensor,
        pytest.param(by_type, marks=UNSEEN),
        pytest.param(by_default, marks=UNSEEN),
        by_closure_of_a_method,
        by_part,
    ],
    ids=lambda make: make.__name__,
)
def test_W28_what_a_class_holds_is_compared_with_what_was_traced(
    make: Callable[[int], Callable[[Tensor], Tensor]], tmp_path: Path
) -> None:
    x = torch.arange(4.0)
    for number, files in ((2, 1), (2, 1), (3, 2), (2, 2)):
        torch._dynamo.reset()
        function = make(number)
        cached = cache_compile(function, cache_dir=tmp_path, dynamic=False)
        for _ in range(2):
            torch.testing.assert_close(cached(x), function(x))
        assert len(list(cached.folder.iterdir())) == files


def test_W28_what_a_class_holds_may_change_after_a_file_was_read(tmp_path: Path) -> None:
    x = torch.arange(4.0)
    cache_compile(by_list(2), cache_dir=tmp_path)(x)
    torch._dynamo.reset()
    function = by_list(2)
    cached = cache_compile(function, cache_dir=tmp_path)
    for number in (2, 3, 2):
        type(function.__self__).factors[0] = number
        torch.testing.assert_close(cached(x), function(x))
