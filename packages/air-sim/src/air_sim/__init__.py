"""A software Ascend: the CANN C ABI on a CPU, for the real torch_npu wheel.

    import air_sim
    air_sim.activate()      # before torch
    import torch
    torch.randn(4, 4).npu()

No number measured on it is NPU performance: only the host time above the ACL boundary is real.
"""

from __future__ import annotations

from air_sim._activate import activate, active, environment
from air_sim._build import Libraries, build
from air_sim._control import calls, change, counters, recover, static_kernels
from air_sim._switches import Switches
from air_sim._version import __version__

__all__ = [
    "Libraries",
    "Switches",
    "__version__",
    "activate",
    "active",
    "build",
    "calls",
    "change",
    "counters",
    "environment",
    "recover",
    "static_kernels",
]
