"""What the `air` command does before torch is imported: start itself on air-sim, or keep torch_npu from loading."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

NEEDED: Final = (
    ("air_sim", "air-sim", "pip install air-sim"),
    ("torch_npu", "torch_npu", "pip install --no-deps torch_npu==2.13.0 and pip install numpy pyyaml"),
)


class CannotSimulate(Exception):
    """`--sim` was asked for and something it needs is not installed."""

    def __init__(self, package: str, install: str) -> None:
        super().__init__(f"--sim needs {package}, which is not installed; install it: {install}")


def restart(words: Sequence[str]) -> NoReturn:
    """Replaces this process by `air WORDS` on the software Ascend."""
    for module, package, install in NEEDED:
        if importlib.util.find_spec(module) is None:
            raise CannotSimulate(package, install)
    command = [sys.executable, "-m", "air_sim", "run", "--", "python", "-m", "air_backend.cli", *words]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def reason_not_to_load_torch_npu() -> str | None:
    """Why `import torch` would fail here, where torch would load a torch_npu that finds no CANN."""
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0" or "torch" in sys.modules:
        return None
    if importlib.util.find_spec("torch_npu") is None or ctypes.util.find_library("ascendcl"):
        return None
    if "ASCEND_HOME_PATH" in os.environ or "AIR_SIM_ACTIVE" in os.environ:
        return None
    return "torch_npu is installed and CANN is not: torch_npu stays unloaded (--sim runs it on air-sim)"
