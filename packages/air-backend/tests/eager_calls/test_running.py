"""Whether an error is asked for is read from every layer: presets, environment, patch and what was assigned."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import CompilerConfig, get_npu_backend
from air_backend.eager_calls._running import asks_for_an_error
from air_backend.errors import SharingRefused
from air_config import patch


def step(slot: Tensor, window: Tensor) -> Tensor:
    slot.add_(1)
    return slot * window


def overlapping_call(config: CompilerConfig) -> Callable[[], Any]:
    """A call whose arguments overlap, of a function that was traced with others."""
    torch._dynamo.reset()
    base = torch.arange(12.0)
    run = torch.compile(step, backend=get_npu_backend(compiler_config=config))
    with torch.no_grad():
        run(base[:4], base[4:8])

    def call() -> Any:
        with torch.no_grad():
            return run(base[:4], base[2:6])

    return call


def test_with_a_mode_by_preset_such_a_call_is_an_error() -> None:
    config = CompilerConfig.preset("reduce-overhead")
    config.air.uncapturable = "error"
    with pytest.raises((SharingRefused, BackendCompilerFailed), match="overlap otherwise"):
        overlapping_call(config)()


def test_by_the_environment_such_a_call_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIR_UNCAPTURABLE", "error")
    with pytest.raises((SharingRefused, BackendCompilerFailed), match="overlap otherwise"):
        overlapping_call(CompilerConfig.preset("reduce-overhead"))()


def test_by_a_patch_such_a_call_is_an_error() -> None:
    with (
        patch(uncapturable="error"),
        pytest.raises((SharingRefused, BackendCompilerFailed), match="overlap otherwise"),
    ):
        overlapping_call(CompilerConfig.preset("reduce-overhead"))()


def test_each_mode_has_its_own_option() -> None:
    captured, ir = CompilerConfig.preset("reduce-overhead"), CompilerConfig()
    with patch(uncapturable="error"):
        assert asks_for_an_error(captured)
        assert not asks_for_an_error(ir)
    with patch(unsupported="error"):
        assert not asks_for_an_error(captured)
        assert asks_for_an_error(ir)


class Merging(torch.nn.Module):
    """Merges a difference into its weight in each call, as peft does with its adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor, difference: Tensor) -> Any:
        weight = self.inner.weight
        weight.data = weight.data + difference
        return self.inner(x)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_data_is_assigned_to_an_inference_tensor_as_eager_does(mode: str) -> None:
    """Dynamo writes `set_` and one version less in its place; inference tensors have no versions."""
    torch._dynamo.reset()
    with torch.inference_mode():
        model, x, difference = Merging(), torch.randn(2, 4), torch.randn(4, 4)
        twin = deepcopy(model)
        run = torch.compile(model, backend=get_npu_backend(compiler_config=CompilerConfig.preset(mode)))
        for _ in range(3):
            torch.testing.assert_close(run(x, difference), twin(x, difference))
    torch.testing.assert_close(model.inner.weight, twin.inner.weight)
