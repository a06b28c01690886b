"""What is decided before a graph is resolved is decided by every layer of options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import CompilerConfig, _records
from air_backend._compilation import JOINT_GRAPH, KEEP_MUTATIONS, Compilation
from air_backend._compile import STATIC_KERNELS
from air_backend._context import context_of
from air_config import OPTIONS, Context, patch

ON_NPU = [mock.Mock(spec=Tensor, device=SimpleNamespace(type="npu"))]


def test_the_way_graphs_are_traced_is_read_from_the_environment_and_from_a_patch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compilation = Compilation(CompilerConfig())
    plain = compilation.front
    assert plain["keep_inference_input_mutations"] is True
    with patch({JOINT_GRAPH: True}):
        assert compilation.front["partition_fn"] is not plain["partition_fn"]
    monkeypatch.setenv(OPTIONS[KEEP_MUTATIONS].environment_name, "0")
    assert compilation.front["keep_inference_input_mutations"] is False


def test_a_mode_by_preset_decides_whether_an_engine_of_the_device_compiles() -> None:
    assert Compilation(CompilerConfig()).by_engine_of_device(ON_NPU)
    captured = Compilation(CompilerConfig.preset("reduce-overhead"))
    assert not captured.by_engine_of_device(ON_NPU)
    assert not captured.ahead(ON_NPU)


def test_the_environment_decides_whether_a_backward_is_compiled_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compilation = Compilation(CompilerConfig())
    assert compilation.ahead(ON_NPU)
    monkeypatch.setenv("AIR_COMPILE_AHEAD", "0")
    assert not compilation.ahead(ON_NPU)


def test_static_kernels_by_a_patch_are_told_to_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def told_to(*args: Any, static_kernels: bool, **facts: Any) -> Context:
        told.append(static_kernels)
        return context_of(*args, static_kernels=static_kernels, **facts)

    monkeypatch.setattr("air_backend._compile.context_of", told_to)
    compiled = torch.compile(torch.relu, backend="air", mode="reduce-overhead")
    with patch({STATIC_KERNELS: True}), pytest.raises(BackendCompilerFailed, match="for NPUs only"):
        compiled(torch.ones(3))
    compiled(torch.ones(3))
    assert told == [True, False]


@pytest.mark.parametrize("layer", ["patch", "environment"])
def test_a_backward_half_is_compiled_with_the_layers_of_its_forward(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(4, requires_grad=True)
    compiled = torch.compile(lambda x: (x * 2).sin().sum(), backend="air")
    if layer == "patch":
        with patch({"mode": "reduce-overhead", "air.verify": True}):
            loss = compiled(x)
    else:
        with monkeypatch.context() as environment:
            environment.setenv("AIR_MODE", "reduce-overhead")
            environment.setenv("AIR_VERIFY", "1")
            loss = compiled(x)
    loss.backward()
    made = [(record.role, record.settings.mode, record.settings.air.verify) for record, _ in _records.alive()]
    assert made == [("forward", "reduce-overhead", True), ("backward", "reduce-overhead", True)]
