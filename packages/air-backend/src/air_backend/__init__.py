"""An open `torch.compile` backend for Ascend NPUs, that also runs on CUDA and on plain CPU tensors.

    import torch
    from air_backend import CompilerConfig, get_npu_backend

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    model = torch.compile(model, backend=get_npu_backend(compiler_config=config))

or, by the entry point, `torch.compile(model, backend="air", mode="reduce-overhead", options={...})`. The module can
stand in for TorchAir: `import air_backend as torchair`, or `air run script.py` for a script that is left unchanged.

Names are loaded at first use: the `air` command has to look around before torch is imported, because torch loads
torch_npu when it is imported, and fails where torch_npu does not find CANN.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from air_backend._version import __version__

if TYPE_CHECKING:
    from air_backend import configs, core, errors, experimental, ge, inference, llm_datadist, ops, scope
    from air_backend._backend import Backend, air, compile_fx, get_compiler, get_npu_backend
    from air_backend._bisect import Verdict, bisect
    from air_backend._collectives import patch_for_hcom
    from air_backend._explain import Explanation, explain
    from air_backend._formats import npu_format_cast_via_cpu, use_internal_format_weight
    from air_backend._pinned import PinnedCall, pin
    from air_backend.core.utils import logger
    from air_config import CompilerConfig
    from air_fxpasses import register_replacement
    from air_geir import register_fx_node_ge_converter
    from air_geir.export import dynamo_export

_HOME: Final[dict[str, str]] = {
    "Backend": "air_backend._backend",
    "CompilerConfig": "air_config",
    "Explanation": "air_backend._explain",
    "PinnedCall": "air_backend._pinned",
    "Verdict": "air_backend._bisect",
    "air": "air_backend._backend",
    "bisect": "air_backend._bisect",
    "compile_fx": "air_backend._backend",
    "explain": "air_backend._explain",
    "get_compiler": "air_backend._backend",
    "get_npu_backend": "air_backend._backend",
    "logger": "air_backend.core.utils",
    "npu_format_cast_via_cpu": "air_backend._formats",
    "pin": "air_backend._pinned",
    "patch_for_hcom": "air_backend._collectives",
    "use_internal_format_weight": "air_backend._formats",
    "dynamo_export": "air_geir.export",
    "register_fx_node_ge_converter": "air_geir",
    "register_replacement": "air_fxpasses",
}
_MODULES: Final = (
    "configs",
    "core",
    "errors",
    "experimental",
    "ge",
    "inference",
    "llm_datadist",
    "ops",
    "scope",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"air_backend.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'air_backend' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Backend",
    "CompilerConfig",
    "Explanation",
    "PinnedCall",
    "Verdict",
    "__version__",
    "air",
    "bisect",
    "compile_fx",
    "configs",
    "core",
    "dynamo_export",
    "errors",
    "experimental",
    "explain",
    "ge",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "llm_datadist",
    "logger",
    "npu_format_cast_via_cpu",
    "ops",
    "patch_for_hcom",
    "pin",
    "register_fx_node_ge_converter",
    "register_replacement",
    "scope",
    "use_internal_format_weight",
]
