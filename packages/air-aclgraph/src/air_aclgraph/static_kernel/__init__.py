"""Compiles the operators of a graph for the shapes in use, before the graph is captured.

An ordinary operator binary of CANN takes its shapes at run time.  One that is compiled for fixed shapes has its
scalar work done beforehand and needs fewer synchronisations; `_aclnn_static_shape_kernel` asks for that.

Works by CANN's own tools (`op_compiler`, the installers it writes) and needs nothing else of them than their
command lines; the parts that touch CANN are behind `Toolkit`.
"""

from __future__ import annotations

from air_aclgraph.static_kernel._nodes import local_world_sizes
from air_aclgraph.static_kernel._options import Options
from air_aclgraph.static_kernel._pipeline import StaticKernels
from air_aclgraph.static_kernel._profiler import first_step_skipped
from air_aclgraph.static_kernel._report import Report
from air_aclgraph.static_kernel._toolkit import CannToolkit, Toolkit
from air_aclgraph.static_kernel.errors import (
    BuildDirRefused,
    StageFailed,
    StaticKernelWarning,
    SymbolRefused,
)

__all__ = [
    "BuildDirRefused",
    "CannToolkit",
    "Options",
    "Report",
    "StageFailed",
    "StaticKernelWarning",
    "StaticKernels",
    "SymbolRefused",
    "Toolkit",
    "first_step_skipped",
    "local_world_sizes",
]
