"""FX graphs as Ascend IR, and engines that run it anywhere."""

from __future__ import annotations

from air_geir._by_schema import register_by_schema
from air_geir._compile import Executable, compile_graph
from air_geir._engines import choose_engine, register_engine
from air_geir._fallback import SplitExecutable
from air_geir._version import __version__
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
    "lower",
    "lower_program",
    "register_by_schema",
    "register_engine",
    "register_fx_node_ge_converter",
]
