"""Whether an error is asked for is read from every layer: presets, environment, patch and what was assigned."""

from __future__ import annotations

from collections.abc import Callable
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
