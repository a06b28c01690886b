"""npugraph_ex under its own names: what `import npugraph_ex` and `torch.npu.npugraph_ex` give where AIR stands in.

    from air_backend import npugraph_ex

    config = npugraph_ex.CompilerConfig()
    config.clone_output = True                      # options lie flat
    model = torch.compile(model, backend=npugraph_ex.get_npu_backend(compiler_config=config))

`air run script.py` and `air_backend.install_as_torchair()` put it in place under the names that programs import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from air_backend.core.utils import logger
    from air_backend.npugraph_ex import inference, scope
    from air_backend.npugraph_ex.configs.compiler_config import CompilerConfig
    from air_backend.npugraph_ex.npu_fx_compiler import backend, compile_fx, get_compiler, get_npu_backend
    from air_fxpasses import register_replacement

_HOME: Final[dict[str, str]] = {
    "CompilerConfig": "air_backend.npugraph_ex.configs.compiler_config",
    "backend": "air_backend.npugraph_ex.npu_fx_compiler",
    "compile_fx": "air_backend.npugraph_ex.npu_fx_compiler",
    "get_compiler": "air_backend.npugraph_ex.npu_fx_compiler",
    "get_npu_backend": "air_backend.npugraph_ex.npu_fx_compiler",
    "logger": "air_backend.core.utils",
    "register_replacement": "air_fxpasses",
}
_MODULES: Final = ("configs", "core", "inference", "npu_fx_compiler", "ops", "patterns", "scope")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'air_backend.npugraph_ex' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_MODULES))


__all__ = [
    "CompilerConfig",
    "backend",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "register_replacement",
    "scope",
]
