"""Engines: what runs an Ascend IR graph, behind one protocol.

A `Program` is a graph with its calling convention. `Engine.compile(program, options)` gives a `Compiled`, which takes
tensors in the order of the graph's inputs; `bind` makes the function of the caller's own arguments around it.
"""

from __future__ import annotations

from air_geir.engines._addresses import tensors_at
from air_geir.engines._binding import bind, source_of
from air_geir.engines._extension import NpuDevice, start_dump
from air_geir.engines._options import DeviceFacts, PlainDevice, dump_config, engine_options, tensor_dump
from air_geir.engines._program import (
    ArgInput,
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    InputBinding,
    OffsetInput,
    OutputBinding,
    Program,
    SeedInput,
    SizeOutput,
    SymbolSource,
    SymInput,
    SymPackInput,
    ViewOutput,
)
from air_geir.engines._protocol import Compiled, Engine, EngineOptions, TensorDump, Unavailable
from air_geir.engines._torchair_extension import TorchairExtension

__all__ = [
    "ArgInput",
    "ArgOutput",
    "Compiled",
    "ConstantOutput",
    "DeviceFacts",
    "Engine",
    "EngineOptions",
    "GraphOutput",
    "InputBinding",
    "NpuDevice",
    "OffsetInput",
    "OutputBinding",
    "PlainDevice",
    "Program",
    "SeedInput",
    "SizeOutput",
    "SymInput",
    "SymPackInput",
    "SymbolSource",
    "TensorDump",
    "TorchairExtension",
    "Unavailable",
    "ViewOutput",
    "bind",
    "dump_config",
    "engine_options",
    "source_of",
    "start_dump",
    "tensor_dump",
    "tensors_at",
]
