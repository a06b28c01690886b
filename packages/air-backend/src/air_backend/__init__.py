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

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from air_backend._version import __version__ as __version__

if TYPE_CHECKING:  # every public name, once: what is read below as well
    from air_backend import configs as configs
    from air_backend import core as core
    from air_backend import errors as errors
    from air_backend import experimental as experimental
    from air_backend import ge as ge
    from air_backend import inference as inference
    from air_backend import llm_datadist as llm_datadist
    from air_backend import npugraph_ex as npugraph_ex
    from air_backend import ops as ops
    from air_backend import scope as scope
    from air_backend._alias import install_as_torchair as install_as_torchair
    from air_backend._backend import Backend as Backend
    from air_backend._backend import air as air
    from air_backend._backend import compile_fx as compile_fx
    from air_backend._backend import get_compiler as get_compiler
    from air_backend._backend import get_npu_backend as get_npu_backend
    from air_backend._bisect import Verdict as Verdict
    from air_backend._bisect import bisect as bisect
    from air_backend._collectives import patch_for_hcom as patch_for_hcom
    from air_backend._explain import Explanation as Explanation
    from air_backend._explain import explain as explain
    from air_backend._formats import npu_format_cast_via_cpu as npu_format_cast_via_cpu
    from air_backend._formats import use_internal_format_weight as use_internal_format_weight
    from air_backend._pinned import PinnedCall as PinnedCall
    from air_backend._pinned import pin as pin
    from air_backend.core.utils import logger as logger
    from air_config import CompilerConfig as CompilerConfig
    from air_config.errors import AirError as AirError
    from air_fxpasses import register_replacement as register_replacement
    from air_geir import register_fx_node_ge_converter as register_fx_node_ge_converter
    from air_geir.export import dynamo_export as dynamo_export
    from air_geir.offline import compile_air as compile_air
    from air_geir.offline import load_om as load_om


def _homes() -> dict[str, tuple[str, str]]:
    """Public name to its module and its name there, from the imports above, which only type checkers execute."""
    public = next(part for part in ast.parse(Path(__file__).read_text()).body if isinstance(part, ast.If))
    imports = (part for part in public.body if isinstance(part, ast.ImportFrom))
    return {str(one.asname): (str(part.module), one.name) for part in imports for one in part.names}


_HOMES: Final = _homes()
__all__ = [*_HOMES, "__version__"]


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
