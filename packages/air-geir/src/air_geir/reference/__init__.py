"""The reference engine: an interpreter of Ascend IR on the CPU."""

from __future__ import annotations

from air_geir.reference._engine import CompiledReference, ReferenceEngine, run_graph
from air_geir.reference.kernels import Kernel, Operator, kernel, kernel_types

__all__ = [
    "CompiledReference",
    "Kernel",
    "Operator",
    "ReferenceEngine",
    "kernel",
    "kernel_types",
    "run_graph",
]
