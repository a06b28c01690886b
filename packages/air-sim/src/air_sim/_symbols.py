"""Lists the functions that torch_npu links to and nobody defines, so that the dynamic linker finds a stub.

A stub only has to exist: called, it prints its own name and fails.  The list follows from the installed wheel, so
another torch_npu version gets its own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from air_sim._install import Install

# Names of the CANN C ABI, and mangled names of its C++ classes.
_CANN = re.compile(
    r"^(acl[a-z]*[A-Z]|Hccl|hccl|Hcom|rt[A-Z]|Msprof|Adx|ge[A-Z]|mspti"
    r"|_ZNK?2ge|_ZT[IV]N2ge|_ZN(K)?3atb|_ZNK?7domi|_ZNK?15ascend_protobuf|_ZNK?6google)"
)


def _nm(options: Iterable[str], file: Path) -> list[str]:
    output = subprocess.run(["nm", *options, str(file)], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in output.splitlines() if line.strip()]


def defined_symbols(objects: Iterable[Path]) -> set[str]:
    """Names that the object files export."""
    names: set[str] = set()
    for file in objects:
        names.update(_nm(["--defined-only", "--extern-only"], file))
    return names


def wanted_symbols(install: Install) -> set[str]:
    """Names of the CANN ABI that the wheel's libraries leave undefined."""
    root = install.torch_npu
    files = [
        *root.glob("_C*.so"),
        *(root / "lib").glob("*.so"),
        *(root / "dynamo/torchair/core").glob("*.so"),
    ]
    names: set[str] = set()
    for file in files:
        names.update(name.split("@")[0] for name in _nm(["-D", "--undefined-only"], file))
    return {name for name in names if _CANN.match(name)}


def stub_list(install: Install, objects: Iterable[Path]) -> str:
    """The generated include file: one MISSING(number, symbol) line per stub."""
    missing = sorted(wanted_symbols(install) - defined_symbols(objects))
    return "".join(f"MISSING({number}, {name})\n" for number, name in enumerate(missing))
