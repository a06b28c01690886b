"""Starts a program on several ranks, with gloo on CPU tensors or with HCCL on air-sim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 900


def launched(
    program: Path, device: str, *arguments: str, ranks: int = 2, limit_s: int = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """The program on so many ranks; torchrun finds a free port by itself."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*torchrun, str(program), "--device", device, *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    if (
        device == "npu"
    ):  # a process tree of its own: this one has one device, these need as many as there are ranks
        command = [sys.executable, "-m", "air_sim", "run", "--set", f"devices={ranks}", *command]
        kept = {k: v for k, v in variables.items() if k != "LD_LIBRARY_PATH" and not k.startswith("AIR_SIM_")}
        variables = {k: v for k, v in kept.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=variables)
