"""A file of `cache_compile` is not used where the program has put other functions into classes of torch."""

from __future__ import annotations

import fractions
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.mutation_guard import install_generation_tagging_init
from torch.nn import functional

from air_backend.inference import cache_compile
from air_backend.inference._classes import changed, classes_of


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def run(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result.relu()


def ten_times(self: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, self.weight * 10, self.bias)


def called_twice(self: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = nn.Module.__call__(self, x) * 2
    return result


def tripled(self: Tensor) -> Tensor:
    return self * 3


def looked_at(value: Any) -> Any:
    return SimpleNamespace(value=value)


@pytest.mark.parametrize(
    ("owner", "name", "mine"),
    [
        (nn.Linear, "forward", ten_times),
        (nn.Linear, "forward", nn.Identity.forward),
        (nn.Linear, "__call__", called_twice),
        (Tensor, "relu", tripled),
        (Tensor, "relu", Tensor.neg),
    ],
)
def test_W28_a_function_that_was_put_into_a_class_of_torch_is_compared(
    owner: type, name: str, mine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = Model(), torch.linspace(-1, 1, 6).view(2, 3)
    for patched in (False, True):
        if patched:
            monkeypatch.setattr(owner, name, mine, raising=False)
        torch._dynamo.reset()
        function = cache_compile(model.run, cache_dir=tmp_path)
        with torch.no_grad():
            torch.testing.assert_close(function(x), model.run(x))


def test_a_class_of_torch_that_nobody_changed_is_the_same_in_each_process() -> None:
    values: list[Any] = [Model(), nn.Linear(1, 1), torch.ones(1), {}, 1]
    classes = classes_of([looked_at(value) for value in values])
    assert changed(classes) is None
    assert "torch.nn.modules.linear:Linear" in classes
    assert not any(name.startswith("builtins") for name in classes), "nobody can change those"


def test_a_class_of_torch_in_a_module_that_is_not_imported_yet_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classes = classes_of([looked_at(fractions.Fraction(1))])
    monkeypatch.delitem(sys.modules, "fractions")
    assert classes
    assert changed(classes) is None


def test_what_torchs_compiler_puts_into_modules_is_no_patch() -> None:
    text = classes_of([looked_at(Model())])
    install_generation_tagging_init()
    assert nn.Module.__init__.__name__ == "patched_init"
    assert classes_of([looked_at(Model())]) == text
    assert changed(text) is None
