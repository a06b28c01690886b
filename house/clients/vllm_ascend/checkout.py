"""Loads modules of a checkout of vLLM-Ascend beside stand-ins for the interfaces of vllm that they import.

vllm itself is not needed: what stands here are the names, with no more behaviour than a compilation and a replay ask
for. The modules of the checkout run as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib.util
import logging
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import torch

VARIABLE: Final = "AIR_VLLM_ASCEND"


class _Logger(logging.Logger):
    def info_once(self, message: str, *args: Any, scope: str = "") -> None:
        self.info(message, *args)


@dataclasses.dataclass(frozen=True)
class BatchDescriptor:
    """What a captured graph is kept under."""

    num_tokens: int


class CUDAGraphMode(enum.Enum):
    """Of vllm's modes those that the wrapper tells apart."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2


@dataclasses.dataclass
class CUDAGraphOptions:
    """The defaults of vllm."""

    debug_log_enable: bool = True
    gc_disable: bool = False
    weak_ref_output: bool = True


@dataclasses.dataclass
class Range:
    """The sizes that a compilation is for."""

    start: int
    end: int


context: Final = SimpleNamespace(
    batch_descriptor=None, cudagraph_runtime_mode=CUDAGraphMode.NONE, capturing=False
)
settings: Final = SimpleNamespace(enable_npugraph_ex=True, enable_static_kernel=False)
vllm_config: Final = SimpleNamespace(
    compilation_config=SimpleNamespace(cudagraph_capture_sizes=[1, 2, 4]),
    scheduler_config=SimpleNamespace(max_num_seqs=4),
    parallel_config=SimpleNamespace(local_world_size=1, data_parallel_size_local=1),
    speculative_config=None,
)
_offloader: Final = SimpleNamespace(sync_prev_onload=lambda: None, join_after_forward=lambda: None)


def _weak(value: Any) -> Any:
    """vLLM-Ascend's helper, which needs torch_npu alone."""
    if isinstance(value, torch.Tensor):
        make: Any = vars(sys.modules["torch_npu"])["_C"]._weak_ref_tensor
        return make(value)
    return type(value)(map(_weak, value)) if isinstance(value, (list, tuple)) else value


def _names() -> dict[str, dict[str, Any]]:
    """Modules that are stood for, with the names in them."""
    npu: Any = vars(torch)["npu"]
    logger = _Logger("vllm")
    interface = type("CompilerInterface", (), {})
    config = type("VllmConfig", (), {})
    platform = SimpleNamespace(get_global_graph_pool=npu.graph_pool_handle)
    return {
        "vllm": {},
        "vllm.envs": {"VLLM_LOGGING_LEVEL": "INFO"},
        "vllm.logger": {"logger": logger},
        "vllm.config": {"VllmConfig": config, "CUDAGraphMode": CUDAGraphMode},
        "vllm.config.utils": {"Range": Range},
        "vllm.platforms": {"current_platform": platform},
        "vllm.forward_context": {"BatchDescriptor": BatchDescriptor, "get_forward_context": lambda: context},
        "vllm.compilation": {},
        "vllm.compilation.compiler_interface": {"CompilerInterface": interface},
        "vllm.compilation.counter": {"compilation_counter": SimpleNamespace(num_cudagraph_captured=0)},
        "vllm.compilation.cuda_graph": {"CUDAGraphOptions": CUDAGraphOptions},
        "vllm.compilation.monitor": {"validate_cudagraph_capturing_enabled": lambda: None},
        "vllm.model_executor": {},
        "vllm.model_executor.offloader": {},
        "vllm.model_executor.offloader.base": {"get_offloader": lambda: _offloader},
        "vllm_ascend": {},
        "vllm_ascend.ascend_config": {
            "AscendCompilationConfig": SimpleNamespace,
            "get_ascend_config": lambda: SimpleNamespace(ascend_compilation_config=settings),
        },
        "vllm_ascend.ascend_forward_context": {"_EXTRA_CTX": SimpleNamespace(is_draft_model=False)},
        "vllm_ascend.utils": {"COMPILATION_PASS_KEY": "graph_fusion_manager", "weak_ref_tensors": _weak},
        "vllm_ascend.compilation": {},
        "vllm_ascend.patch": {},
        "vllm_ascend.patch.worker": {},
    }


def install() -> None:
    """Puts the stand-ins where the modules of the checkout import them from."""
    for name, contents in _names().items():
        module = ModuleType(name)
        module.__dict__.update(contents, __path__=[])
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def load(name: str) -> Any:
    """A module of the checkout, `compilation.acl_graph`."""
    root = Path(os.environ[VARIABLE])
    path = root / "vllm_ascend" / (name.replace(".", "/") + ".py")
    spec = importlib.util.spec_from_file_location(f"vllm_ascend.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def batch(tokens: int, mode: CUDAGraphMode = CUDAGraphMode.FULL) -> Any:
    """A forward of so many tokens."""
    context.batch_descriptor, context.cudagraph_runtime_mode = BatchDescriptor(tokens), mode
    try:
        yield
    finally:
        context.batch_descriptor, context.cudagraph_runtime_mode = None, CUDAGraphMode.NONE
