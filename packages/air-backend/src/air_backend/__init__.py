"""An open `torch.compile` backend for Ascend NPUs, that also runs on CUDA and on plain CPU tensors.

    import torch
    from air_backend import CompilerConfig, get_npu_backend

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    model = torch.compile(model, backend=get_npu_backend(compiler_config=config))

or, by the entry point, `torch.compile(model, backend="air", mode="reduce-overhead", options={...})`. The module can
stand in for TorchAir: `import air_backend as torchair`, or `air run script.py` for a script that is left unchanged.

`__init__.pyi` lists the public names. They are loaded at first use: the `air` command has to look around before torch
is imported, because torch loads torch_npu when it is imported, and fails where torch_npu does not find CANN.
"""

from __future__ import annotations

import ast
import importlib
from importlib import resources
from typing import Any, Final

from air_backend._version import __version__ as __version__


def _homes() -> dict[str, tuple[str, str]]:
    """Public name to its module and its name there, from the imports of `__init__.pyi`."""
    stub = resources.files(__name__).joinpath("__init__.pyi").read_text()
    imports = (part for part in ast.parse(stub).body if isinstance(part, ast.ImportFrom))
    return {str(one.asname): (str(part.module), one.name) for part in imports for one in part.names}


_HOMES: Final = _homes()
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'air_backend' has no attribute {name!r}")
    home, own = _HOMES[name]
    if home == __name__:  # a module
        return importlib.import_module(f"{home}.{own}")
    value = globals()[name] = getattr(importlib.import_module(home), own)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
