"""A model that holds a function of `cache_compile` is copied like any other; what cannot be pickled says so at once."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import air_backend
from air_backend.inference import cache_compile
from air_backend.inference.errors import CannotPickle

X = torch.ones(2, 3)


class Model(nn.Module):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.decode = cache_compile(self._decode, cache_dir=folder)

    def _decode(self, x: Tensor) -> Any:
        return self.linear(x)

    def plain(self, x: Tensor) -> Any:
        return self.linear(x) * 2

    def forward(self, x: Tensor) -> Any:
        return self.decode(x)


@pytest.mark.parametrize("is_called", [False, True], ids=["before a call", "after a call"])
def test_a_deep_copy_computes_with_its_own_weights(is_called: bool, tmp_path: Path) -> None:
    model = Model(tmp_path)
    if is_called:
        model(X)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.linear.weight.mul_(3)
        assert torch.equal(other(X), other._decode(X))
        assert torch.equal(model(X), model._decode(X))
        assert not torch.equal(model(X), other(X))
    assert other.decode.folder == model.decode.folder, "one file serves both"


def test_a_copy_shares_the_function_as_it_shares_the_weights(tmp_path: Path) -> None:
    model = Model(tmp_path)
    other = copy.copy(model)
    with torch.no_grad():
        assert other.decode is model.decode
        assert torch.equal(other(X), model._decode(X))


def doubled(x: Tensor) -> Tensor:
    return x * 2


def test_a_function_without_a_model_is_its_own_copy(tmp_path: Path) -> None:
    function = cache_compile(doubled, cache_dir=tmp_path)
    assert copy.deepcopy(function) is function


@pytest.mark.parametrize("save", [pickle.dumps, lambda model: torch.save(model, io.BytesIO())])
def test_to_pickle_such_a_model_is_an_error_at_once(save: Any, tmp_path: Path) -> None:
    with pytest.raises(CannotPickle, match=r"Model\._decode is a function of cache_compile") as raised:
        save(Model(tmp_path))
    assert isinstance(raised.value, pickle.PicklingError)


def test_torch_writes_another_function_of_such_a_model(tmp_path: Path) -> None:
    model = Model(tmp_path)
    backend = air_backend.get_npu_backend()
    with torch.no_grad(), torch._dynamo.config.patch(enable_aot_compile=True):
        lazy: Any = torch.compile(model.plain, backend=backend, fullgraph=True)
        compiled = lazy.aot_compile(((X,), {}))
        compiled.save_compiled_function(str(tmp_path / "plain.bin"))
        with open(tmp_path / "plain.bin", "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        assert torch.equal(loaded(model, X), model.plain(X))
