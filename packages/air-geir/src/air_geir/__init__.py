"""FX graphs as Ascend IR, and engines that run it on NPUs and CPUs.

Names are loaded at first use: a program that runs offline models needs neither converters nor Dynamo.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Final

from air_geir._version import __version__

if TYPE_CHECKING:
    from air_geir._by_schema import register_by_schema
    from air_geir._compile import Executable, compile_graph
    from air_geir._engines import choose_engine, engines_here, register_engine
    from air_geir._fallback import SplitExecutable
    from air_geir.building import Context, Value
    from air_geir.converters import Sample, converts
    from air_geir.errors import GeirError
    from air_geir.ge import register_fx_node_ge_converter
    from air_geir.lowering import lower, lower_program

__all__ = [
    "Context",
    "Executable",
    "GeirError",
    "Sample",
    "SplitExecutable",
    "Value",
    "__version__",
    "choose_engine",
    "compile_graph",
    "converts",
    "engines_here",
    "lower",
    "lower_program",
    "register_by_schema",
    "register_engine",
    "register_fx_node_ge_converter",
]
_HOMES: Final = {
    "Context": "building",
    "Executable": "_compile",
    "GeirError": "errors",
    "Sample": "converters",
    "SplitExecutable": "_fallback",
    "Value": "building",
    "choose_engine": "_engines",
    "compile_graph": "_compile",
    "converts": "converters",
    "engines_here": "_engines",
    "lower": "lowering",
    "lower_program": "lowering",
    "register_by_schema": "_by_schema",
    "register_engine": "_engines",
    "register_fx_node_ge_converter": "ge",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
