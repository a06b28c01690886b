"""Capture once, replay often."""

from __future__ import annotations

from air_aclgraph._addresses import address_test
from air_aclgraph._by_size import OncePerSize
from air_aclgraph._compile import AnyExecutable, compile_graph, run_eagerly, runtime_for, use_runtime
from air_aclgraph._direct import DirectCall, WitnessedCall, Wrapped, outside_levels, witnessed
from air_aclgraph._executable import Executable
from air_aclgraph._host_constants import HostConstant, decided_by_symbols, hold_host_constants
from air_aclgraph._key import exact
from air_aclgraph._modes import outside_modes
from air_aclgraph._numbers import stage_numbers
from air_aclgraph._pieced import PiecedExecutable, Splitter
from air_aclgraph._pin import Pinned
from air_aclgraph._runtime import Abilities, Limits, Recording, Request, Runtime
from air_aclgraph._uncapturable import (
    register_uncapturable,
    registered_uncapturable,
    types_given,
    uncapturable,
    unregister_uncapturable,
)
from air_aclgraph._version import __version__
from air_aclgraph._without_host import spare_the_host
from air_aclgraph.buckets._padded import PaddedExecutable
from air_aclgraph.device import AcceleratorRuntime
from air_aclgraph.host import HostRuntime

__all__ = [
    "Abilities",
    "AcceleratorRuntime",
    "AnyExecutable",
    "DirectCall",
    "Executable",
    "HostConstant",
    "HostRuntime",
    "Limits",
    "OncePerSize",
    "PaddedExecutable",
    "PiecedExecutable",
    "Pinned",
    "Recording",
    "Request",
    "Runtime",
    "Splitter",
    "WitnessedCall",
    "Wrapped",
    "__version__",
    "address_test",
    "compile_graph",
    "decided_by_symbols",
    "exact",
    "hold_host_constants",
    "outside_levels",
    "outside_modes",
    "register_uncapturable",
    "registered_uncapturable",
    "run_eagerly",
    "runtime_for",
    "spare_the_host",
    "stage_numbers",
    "types_given",
    "uncapturable",
    "unregister_uncapturable",
    "use_runtime",
    "witnessed",
]
