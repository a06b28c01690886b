"""Programs as forks of one process that has imported torch_npu and TorchAir, and has used no device.

Such an import takes seconds, and many tests here need a process of their own, which they may ruin. The import fixes
some switches (`FIXED`): a program that needs others is no fork.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from air_sim._switches import variable

IMPORTED: Final = ["torch", "torch_npu", "torch._dynamo", "torchair"]
DEVICES: Final = 2  # for programs of two ranks
FIXED: Final = ("devices", "memory", "protect", "soc", "cann", "count_file")
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(IMPORTED)


def serve(switches: Mapping[str, object]) -> bool:
    """Whether a fork can be the program that these switches ask for."""
    return {name: switches[name] for name in FIXED if name in switches} in ({}, {"devices": DEVICES})


def _become(script: Path, variables: Mapping[str, str], out: Path, err: Path) -> None:
    """What the fork does: it is the program, as if Python had been started with it."""
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
    os.chdir(script.parent)
    os.environ.update(variables)
    runpy.run_path(str(script), run_name="__main__")


def run(script: Path, variables: Mapping[str, str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fork and gives what `subprocess.run` would have given."""
    out, err = script.with_suffix(".out"), script.with_suffix(".err")
    process = _server.Process(target=_become, args=(script, variables, out, err))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("devices"), str(DEVICES))  # the first start starts the server
        process.start()
    process.join(timeout_s)
    texts = [file.read_text(errors="replace") if file.exists() else "" for file in (out, err)]
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(str(script), timeout_s, *texts)
    return subprocess.CompletedProcess([str(script)], code, *texts)
