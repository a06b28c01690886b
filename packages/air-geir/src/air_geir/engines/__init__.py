"""Engines: what runs an Ascend IR graph, behind one protocol.

A `Program` is a graph with its calling convention. `Engine.compile(program, options)` gives a `Compiled`, which takes
tensors in the order of the graph's inputs; `bind` makes the function of the caller's own arguments around it.
"""

from __future__ import annotations

from air_geir.engines._addresses import tensors_at
from air_geir.engines._atc import Atc
from air_geir.engines._binding import bind, source_of
from air_geir.engines._carried import packed, unpacked
from air_geir.engines._contract import check, held
from air_geir.engines._extension import NpuDevice, start_dump
from air_geir.engines._ge_session import GeSession
from air_geir.engines._kept import as_asked, folder_asked, kept_in
from air_geir.engines._options import DeviceFacts, PlainDevice, dump_config, engine_options, tensor_dump
from air_geir.engines._protocol import Carrier, Compiled, Engine, EngineOptions, Idle, TensorDump, Unavailable
from air_geir.engines._torchair_extension import TorchairExtension

__all__ = [
    "Atc",
    "Carrier",
    "Compiled",
    "DeviceFacts",
    "Engine",
    "EngineOptions",
    "GeSession",
    "Idle",
    "NpuDevice",
    "PlainDevice",
    "TensorDump",
    "TorchairExtension",
    "Unavailable",
    "as_asked",
    "bind",
    "check",
    "dump_config",
    "engine_options",
    "folder_asked",
    "held",
    "kept_in",
    "packed",
    "source_of",
    "start_dump",
    "tensor_dump",
    "tensors_at",
    "unpacked",
]
