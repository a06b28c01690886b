"""What `air-sim info` prints: the installation, the switches, and what the numbers do not mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from air_sim._install import find_install
from air_sim._switches import Switches, table
from air_sim._version import __version__
from air_sim.errors import MissingPackage

NOTICE = (
    "No number measured on air-sim is NPU performance. Kernels run on the CPU, and the driver's own host time is not "
    "modelled: only the host time spent above the ACL boundary (Python, torch, torch_npu) is real."
)


def describe(cache: Path, variable: Callable[[str], str]) -> str:
    """The whole text."""
    lines = [f"air-sim {__version__}", f"cache        {cache}"]
    try:
        install = find_install()
        lines += [f"torch        {install.torch_version}", f"torch_npu    {install.torch_npu_version}"]
    except MissingPackage as missing:
        lines.append(f"not usable:  {missing}")
    current = Switches.of({})
    lines += [
        "",
        "switches (activate(name=value), air-sim run --set name=value, or the environment variable)",
    ]
    for name, env, default, meaning in table():
        value = getattr(current, name)
        shown = f"{value}" if str(value) == default else f"{value} (default {default})"
        source = "*" if os.environ.get(variable(name)) else " "
        lines.append(f"{source} {name:20} {env:28} {shown or '-':24} {meaning}")
    return "\n".join([*lines, "", NOTICE])
