"""Whether torch_npu is here and will load: one question, asked before `import torch` and by the doctor.

torch loads every installed device plug-in at import. A torch_npu that finds no CANN makes that import fail, so the
`air` command looks first, without importing either of them.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Final, Literal

State = Literal["missing", "loaded", "switched off", "without CANN", "loads"]
SWITCH: Final = "TORCH_DEVICE_BACKEND_AUTOLOAD"
INSTALL: Final = "pip install 'air-backend[npu]'"


@dataclass(frozen=True)
class NpuPlugin:
    """What becomes of torch_npu in this process, what to say about it, and what to do."""

    state: State
    seen: str
    advice: str = ""


_ABOUT: Final[dict[State, NpuPlugin]] = {
    plugin.state: plugin
    for plugin in (
        NpuPlugin("missing", "not installed", f"for an NPU or air-sim: {INSTALL}"),
        NpuPlugin("loaded", "loaded"),
        NpuPlugin("switched off", f"installed, and {SWITCH}=0 keeps it from loading", f"unset {SWITCH}"),
        NpuPlugin(
            "without CANN",
            "installed, and there is no CANN: it stays unloaded",
            "--sim (or `air-sim run`) runs it on air-sim; on an NPU machine source CANN's set_env.sh",
        ),
        NpuPlugin("loads", "installed, not loaded", "`import torch` loads it"),
    )
}


def has_cann() -> bool:
    """Whether libraries of CANN, or of air-sim in its place, can be found."""
    known = any(name in os.environ for name in ("ASCEND_HOME_PATH", "AIR_SIM_ACTIVE"))
    return known or ctypes.util.find_library("ascendcl") is not None


def npu_plugin() -> NpuPlugin:
    """Looks at this process; imports nothing."""
    return _ABOUT[_state()]


def keep_unloaded() -> str | None:
    """Keeps a torch_npu that would find no CANN from loading with torch; what to say when that was needed."""
    if os.environ.get(SWITCH, "1") == "0" or "torch" in sys.modules:
        return None
    plugin = npu_plugin()
    if plugin.state != "without CANN":
        return None
    os.environ[SWITCH] = "0"
    return f"torch_npu is {plugin.seen}. {plugin.advice}"


def _state() -> State:
    if "torch_npu" in sys.modules:
        return "loaded"
    if importlib.util.find_spec("torch_npu") is None:
        return "missing"
    if not has_cann():
        return "without CANN"
    return "switched off" if os.environ.get(SWITCH, "1") == "0" else "loads"
