"""The configuration snippets of the TorchAir guide run line by line, and its documented defaults hold."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from air_config import CompilerConfig, Context, Settings, UnusablePath, resolve

RUN_EAGERLY_IR = """
import torch_npu, torchair
config = torchair.CompilerConfig()
config.debug.run_eagerly = True
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)
"""
RUN_EAGERLY_ACLGRAPH = """
import torch_npu, torchair
config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.debug.run_eagerly = True
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)
"""
RUN_EAGERLY_STATIC = """
import torch_npu, torchair
config = torchair.CompilerConfig()
config.debug.run_eagerly = True
config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = "/path/test"
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)
"""
STATIC_KERNEL = """
import torch_npu, torchair
config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = "/path/test"
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)
"""
FX_PASSES = """
import torch_npu, torchair
config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = False
config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass = False
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a snippet line by line with stand-ins for what is not configuration; gives what it resolves to."""
    given: list[CompilerConfig] = []

    def get_npu_backend(*, compiler_config: CompilerConfig) -> object:
        given.append(compiler_config)
        return compiler_config

    torchair: Any = types.ModuleType("torchair")
    torchair.CompilerConfig, torchair.get_npu_backend = CompilerConfig, get_npu_backend
    monkeypatch.setitem(sys.modules, "torchair", torchair)
    monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
    torch = types.SimpleNamespace(compile=lambda model, backend: backend)

    def run_lines(snippet: str, **context: Any) -> Settings:
        names: dict[str, Any] = {"torch": torch, "model": object()}
        for line in snippet.strip().replace("/path/test", str(tmp_path)).splitlines():
            exec(line, names)
        assert names["opt_model"] is names["config"]
        return resolve(given[-1], Context(**context))

    return run_lines


def test_S05_run_eagerly_with_max_autotune(run: Any) -> None:
    settings = run(RUN_EAGERLY_IR)
    assert (settings.mode, settings.debug.run_eagerly, settings.notices) == ("max-autotune", True, ())


def test_S05_run_eagerly_with_reduce_overhead(run: Any) -> None:
    settings = run(RUN_EAGERLY_ACLGRAPH)
    assert (settings.mode, settings.debug.run_eagerly, settings.notices) == ("reduce-overhead", True, ())


def test_S07_run_eagerly_with_static_kernels(run: Any, tmp_path: Path) -> None:
    settings = run(RUN_EAGERLY_STATIC)
    kernels = settings.experimental_config.aclgraph
    assert kernels._aclnn_static_shape_kernel is True
    assert kernels._aclnn_static_shape_kernel_build_dir == str(tmp_path)
    assert settings.notices == ()


def test_S08_static_kernels(run: Any, tmp_path: Path) -> None:
    settings = run(STATIC_KERNEL, soc="Ascend910B3")
    kernels = settings.experimental_config.aclgraph
    assert kernels._aclnn_static_shape_kernel is True
    assert kernels._aclnn_static_shape_kernel_build_dir == str(tmp_path)
    assert settings.check().notices == ()


def test_S14_S15_fx_passes(run: Any) -> None:
    switches = run(FX_PASSES, soc="Ascend910_9391").check().debug.aclgraph
    assert switches.disable_reinplace_inplaceable_ops_pass is False
    assert switches.disable_reinplace_input_mutated_ops_pass is False


def test_S09_the_directory_of_the_guide_need_not_exist_but_it_must_be_possible(tmp_path: Path) -> None:
    kernels = CompilerConfig().experimental_config.aclgraph
    kernels._aclnn_static_shape_kernel_build_dir = str(tmp_path / "path/test")
    (tmp_path / "file").touch()
    with pytest.raises(UnusablePath, match="is not a directory"):
        kernels._aclnn_static_shape_kernel_build_dir = str(tmp_path / "file/test")


def test_S02_documented_defaults() -> None:
    config = CompilerConfig()
    assert config.mode == "max-autotune"
    assert config.debug.run_eagerly is False
    assert config.experimental_config.aclgraph._aclnn_static_shape_kernel is False
    assert config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir is None
    assert config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass is False
    assert config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass is False
