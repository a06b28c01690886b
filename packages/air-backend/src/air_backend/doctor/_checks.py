"""The doctor's checks: each looks at one thing and gives one finding; none of them raises for what it finds.

Absent is not broken: a laptop has no CANN, and everything that runs on CPU tensors still works there.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from air_backend import _alias
from air_backend._ground import best_ground, is_simulated, npu_present
from air_backend._npu_plugin import npu_plugin
from air_backend._version import __version__
from air_backend.doctor._finding import Finding

TORCH_RANGE: Final = SpecifierSet(">=2.11,<2.14")
PROBE_TIMEOUT_S: Final = 120
COMPILE_EVERYWHERE: Final = "_compile_all_devices"
PACKAGES: Final = (
    "air-aclgraph",
    "air-backend",
    "air-config",
    "air-fxpasses",
    "air-geir",
    "air-graph",
    "air-streams",
)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_air() -> Finding:
    """Our own packages: one version, or each that differs."""
    found = {name: _version(name) for name in PACKAGES}
    seen = ", ".join([__version__, *(f"{n} {v}" for n, v in found.items() if v not in (None, __version__))])
    missing = [name for name, version in found.items() if version is None]
    if missing:
        return Finding(
            "AIR",
            "broken",
            f"{seen} without {', '.join(missing)}",
            "pip install --force-reinstall air-backend",
        )
    return Finding("AIR", "ok", seen)


def check_python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.machine()}")


def check_torch() -> Finding:
    version = Version(torch.__version__)
    if TORCH_RANGE.contains(version.base_version):
        return Finding("torch", "ok", torch.__version__)
    return Finding("torch", "broken", torch.__version__, f"install torch{TORCH_RANGE}")


def check_torch_npu() -> Finding:
    plugin, version = npu_plugin(), _version("torch_npu")
    if version is None:
        return Finding("torch_npu", "absent", plugin.seen, plugin.advice)
    if Version(version).release[:2] != Version(torch.__version__).release[:2]:
        advice = "install the torch_npu whose version equals torch's"
        return Finding("torch_npu", "broken", f"{version} beside torch {torch.__version__}", advice)
    if plugin.state != "loaded":
        return Finding("torch_npu", "absent", f"{version} {plugin.seen}", plugin.advice)
    return Finding("torch_npu", "ok", version)


def check_names() -> Finding:
    """Whose `torchair` and `npugraph_ex` this process has: AIR's, torch_npu's, or nobody's yet."""
    found = _alias.in_place()
    ours = [name for name, whose in found.items() if whose == "AIR"]
    advice = "`air run script.py` makes them AIR"
    if ours and len(ours) == len(found):
        return Finding("torchair", "ok", f"AIR: {', '.join(ours)}")
    if ours:
        others = ", ".join(f"{name} from {whose}" for name, whose in found.items() if whose != "AIR")
        return Finding("torchair", "broken", f"AIR: {', '.join(ours)}, but {others}", advice)
    if found:
        return Finding("torchair", "absent", f"torch_npu's own: {', '.join(found)}", advice)
    return Finding("torchair", "absent", "neither it nor npugraph_ex is imported", advice)


def check_cann() -> Finding:
    if is_simulated():
        return Finding("CANN", "ok", "air-sim stands in for it: no number here is NPU performance")
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return Finding(
            "CANN", "absent", "ASCEND_HOME_PATH is not set", "source CANN's set_env.sh, or use air-sim"
        )
    if not Path(home).is_dir():
        return Finding(
            "CANN", "broken", f"ASCEND_HOME_PATH={home} is no folder", "source CANN's set_env.sh again"
        )
    return Finding("CANN", "ok", home)


def check_device() -> Finding:
    if npu_present():
        npu = torch.get_device_module("npu")
        return Finding("NPU", "ok", f"{npu.device_count()} x {npu.get_device_name(0)}")
    if torch.cuda.is_available():
        return Finding(
            "NPU", "absent", f"none; cuda: {torch.cuda.get_device_name(0)}", "reduce-overhead runs on cuda"
        )
    return Finding(
        "NPU", "absent", "none", "compiled functions run on CPU tensors; `air demo --sim` for air-sim"
    )


def check_engines() -> Finding:
    """Which engines of max-autotune there are, which one `"auto"` takes on an NPU, and what hinders the others."""
    from air_geir import engines_here  # the other checks need no converters

    found = engines_here()
    present = [name for name, hindered in found.items() if hindered is None]
    seen = f"auto takes {present[0]}; present: {', '.join(present)}"
    others = "; ".join(str(hindered) for hindered in found.values() if hindered is not None)
    return Finding("engines", "ok", f"{seen}. Not here: {others}" if others else seen)


def _tool(name: str, purpose: str) -> Callable[[], Finding]:
    def check() -> Finding:
        path = shutil.which(name)
        if path:
            return Finding(name, "ok", path)
        return Finding(name, "absent", "not on PATH", f"comes with CANN; needed for {purpose}")

    return check


def check_transformers() -> Finding:
    """Whether `generate` compiles on an NPU, or on the CPU: transformers leaves these out until it is told."""
    version, found = _version("transformers"), importlib.util.find_spec("transformers")
    if version is None or found is None or found.origin is None:
        return Finding("transformers", "absent", "not installed", "needed only where your models are its")
    generation = Path(found.origin).parent / "generation" / "configuration_utils.py"
    if not generation.is_file() or COMPILE_EVERYWHERE.encode() not in generation.read_bytes():
        return Finding("transformers", "ok", version)
    told = f"generate() compiles on npu and cpu with compile_config.{COMPILE_EVERYWHERE} = True alone"
    return Finding("transformers", "ok", f"{version}: {told}")


def check_sim() -> Finding:
    version = _version("air-sim")
    if version is None:
        return Finding("air-sim", "absent", "not installed", "pip install air-sim")
    if not shutil.which("g++"):
        return Finding("air-sim", "broken", f"{version}, no g++", "install a C++17 compiler named g++")
    return Finding("air-sim", "ok", version)


def check_compile() -> Finding:
    """Compiles one small function on the best ground, in a process of its own."""
    ground = best_ground()
    probe = (
        "import torch, sys\n"
        "f = torch.compile(lambda x: (x @ x).relu() + 1, backend='air', mode='reduce-overhead')\n"
        f"x = torch.randn(8, 8, device={str(ground.device)!r})\n"
        "torch.testing.assert_close(f(x), (x @ x).relu() + 1)\n"
    )
    command = [sys.executable, "-c", probe]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROBE_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        seen = f"a small function on {ground.device} is not compiled after {PROBE_TIMEOUT_S} s"
        return Finding("compile", "broken", seen, "run `air demo` with TORCH_LOGS=+air_backend")
    if ran.returncode == 0:
        return Finding("compile", "ok", f"reduce-overhead on {ground.device} equals eager")
    return Finding(
        "compile", "broken", what_went_wrong(ran.stderr), "run `air demo` with TORCH_LOGS=+air_backend"
    )


def what_went_wrong(stderr: str) -> str:
    """What says most in a failed program's output: all that the backend raised, else the last line."""
    _, raised, said = stderr.partition("raised:\n")
    if raised:  # up to the hints of torch
        return "; ".join(" ".join(line.split()) for line in said.strip().partition("\n\n")[0].splitlines())
    return (stderr.strip().splitlines() or ["no output"])[-1]


CHECKS: Final[tuple[Callable[[], Finding], ...]] = (
    check_air,
    check_python,
    check_torch,
    check_torch_npu,
    check_names,
    check_cann,
    check_device,
    check_engines,
    _tool("op_compiler", "static kernels"),
    _tool("atc", "offline models"),
    check_transformers,
    check_sim,
    check_compile,
)
