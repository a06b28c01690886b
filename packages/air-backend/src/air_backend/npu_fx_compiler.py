"""What TorchAir's module of this name has for other packages: the compiler of graphs, and what is kept of one.

The classes are those of `air_backend.npugraph_ex.npu_fx_compiler`; `get_compiler` and `get_npu_backend` are torchair's.
"""

from __future__ import annotations

from air_backend._backend import get_compiler, get_npu_backend
from air_backend.npugraph_ex.npu_fx_compiler import (
    _CompiledFxArtifacts,
    _CompiledFxGraph,
    _NpuFxCompiler,
    _NpuGraphConverter,
    _unpack_meta,
    _unpack_meta_list,
)

__all__ = [
    "_CompiledFxArtifacts",
    "_CompiledFxGraph",
    "_NpuFxCompiler",
    "_NpuGraphConverter",
    "_unpack_meta",
    "_unpack_meta_list",
    "get_compiler",
    "get_npu_backend",
]
