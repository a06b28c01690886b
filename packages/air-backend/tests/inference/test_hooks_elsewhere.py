"""A file of `cache_compile` is for the hooks that modules had, wherever the function found the modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning

X = torch.ones(1, 3)


def part() -> nn.Module:
    module = nn.Linear(3, 3, bias=False)
    nn.init.ones_(module.weight)
    return module


class InList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [part()]

    def run(self, x: Tensor) -> Any:
        return self.parts[0](x)


class Plain:
    def __init__(self) -> None:
        self.part = part()


class InObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = Plain()

    def run(self, x: Tensor) -> Any:
        return self.plain.part(x)


class InClass(nn.Module):
    part: nn.Module

    def run(self, x: Tensor) -> Any:
        return type(self).part(x)


def of_argument(x: Tensor, module: nn.Module) -> Any:
    return module(x)


def in_list() -> Any:
    model = InList()
    return model.run, (), model.parts[0]


def in_object() -> Any:
    model = InObject()
    return model.run, (), model.plain.part


def in_class() -> Any:
    InClass.part = part()
    return InClass().run, (), InClass.part


def as_argument() -> Any:
    module = part()
    return of_argument, (module,), module


def doubled(module: nn.Module, args: Any, result: Tensor) -> Tensor:
    return result * 2


class Holder:
    """No file can name a hook that is a method of it."""

    factor = torch.ones(1)

    def hook(self, module: nn.Module, args: Any, result: Tensor) -> Tensor:
        return result * 3


@pytest.mark.parametrize("make", [in_list, in_object, in_class, as_argument])
def test_W28_a_graph_is_read_only_where_the_hooks_are_those_it_was_traced_with(
    make: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hooked, count in ((False, 1), (False, 1), (True, 2), (True, 2), (False, 2)):
        torch._dynamo.reset()
        monkeypatch.setattr(RemovableHandle, "next_id", 0)  # as in a process of its own
        run, others, module = make()
        if hooked:
            module.register_forward_hook(doubled)
        function = cache_compile(run, cache_dir=tmp_path)
        for _ in range(2):
            with torch.no_grad():
                assert torch.equal(function(X, *others), run(X, *others))
        assert len(list(function.folder.glob("compiled_module*"))) == count


def test_W28_a_hook_that_no_file_can_name_is_compiled_in_each_process(tmp_path: Path) -> None:
    for hooked in (False, True):
        torch._dynamo.reset()
        module = part()
        function = cache_compile(of_argument, cache_dir=tmp_path)
        if not hooked:
            function(X, module)
            continue
        module.register_forward_hook(Holder().hook)
        with (
            pytest.warns(CacheWarning, match="has a forward hook that has no name in a file"),
            torch.no_grad(),
        ):
            assert torch.equal(function(X, module), of_argument(X, module))
