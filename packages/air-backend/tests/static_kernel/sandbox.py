"""Programs in a process tree of their own: air-sim with its own operator library, temporary directory and logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 300
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Sandbox:
    """A build directory, an operator library and a temporary directory that one test has for itself."""

    root: Path

    def __post_init__(self) -> None:
        for folder in (self.build, self.library, self.root / "tmp"):
            folder.mkdir(parents=True)

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def library(self) -> Path:
        return self.root / "opp"

    @property
    def compilations(self) -> list[dict[str, Any]]:
        """Every call of the compiler's stand-in."""
        log = self.root / "compiled"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def installed(self) -> list[Path]:
        return list(self.library.glob("static_kernel/ai_core/*"))

    def start(self, *command: str, **switches: object) -> subprocess.Popen[str]:
        """Starts a command on air-sim, with the environment of this sandbox."""
        kept = {
            k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH" and not k.startswith("AIR_SIM_")
        }
        kept.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
        variables = {**kept, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.root / "tmp")}
        switches = {"op_compiler_log": self.root / "compiled", **switches}
        words = [word for name, value in switches.items() for word in ("--set", f"{name}={value}")]
        library = ["env", f"ASCEND_OPP_PATH={self.library}"]
        full = [sys.executable, "-m", "air_sim", "run", *words, *library, sys.executable, *command]
        return subprocess.Popen(
            full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
        )

    def run(self, *command: str, **switches: object) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **switches)
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, out + err[-9000:]
        return subprocess.CompletedProcess(command, 0, out, err)


def torchrun(count: int, *arguments: str) -> Sequence[str]:
    """The words that start the program of ranks under torchrun, which finds a free port by itself."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return [*words, str(PROGRAMS / "ranks.py"), *arguments]


def answers(output: str) -> list[dict[str, Any]]:
    """What the ranks printed, in their order."""
    lines = (line for line in output.splitlines() if line.startswith("ANSWER "))
    return sorted((json.loads(line.removeprefix("ANSWER ")) for line in lines), key=lambda a: int(a["rank"]))
