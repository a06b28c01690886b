"""Runs programs on air-sim in processes of their own, without the seconds in which torch_npu is imported.

    from air_sim import forks

    program = "import sys, torch\\nprint(torch.ones(2).npu().sum().item(), sys.argv[1])"
    done = forks.run(program, "argument")
    assert done.returncode == 0, done.stderr

It is for tests whose programs fill caches, end badly, or need a switch from the start. The first call starts a server,
which imports torch_npu and TorchAir, and uses no device; every program is a fork of it. The import fixes what `FIXED`
names: a program that needs other values of these is a process for `air-sim run`, as is one about how Python starts or
ends, for functions of `atexit` are not called in a fork.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from air_sim._switches import variable

IMPORTED: Final = ("torch", "torch_npu", "torch._dynamo", "torchair")
DEVICES: Final = 2
"""So many devices a program has."""
FIXED: Final = ("devices", "memory", "protect", "soc", "cann", "count_file")
"""Switches that a fork has from the server."""


def serve(switches: Mapping[str, object]) -> bool:
    """Whether a fork can be the program that these switches ask for."""
    return {name: switches[name] for name in FIXED if name in switches} in ({}, {"devices": DEVICES})


def run(
    source: str,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """Runs Python source in a fork, in `folder`; gives what `subprocess.run` would give.

    `variables` are set in its environment before it begins; what an imported module has read by then stays.
    """
    with tempfile.TemporaryDirectory(prefix="air_sim_", dir=folder) as place:
        script = Path(place) / "program.py"
        script.write_text(source, encoding="utf-8")
        return _run(script, arguments, variables or {}, folder or Path(place), timeout_s)


def _run(
    script: Path, arguments: Sequence[str], variables: Mapping[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    out, err = script.with_suffix(".out"), script.with_suffix(".err")
    process = _server.Process(target=_become, args=(script, arguments, variables, folder, out, err))
    with _devices(str(DEVICES)):
        process.start()
    process.join(timeout_s)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    told = [file.read_text(errors="replace") if file.exists() else "" for file in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired(str(script), timeout_s, *told)
    return subprocess.CompletedProcess([str(script), *arguments], code, *told)


@contextlib.contextmanager
def _devices(count: str) -> Iterator[None]:
    """For a start that starts the server: it has this environment."""
    name = variable("devices")
    before = os.environ.get(name)
    os.environ[name] = count
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


def _become(
    script: Path, arguments: Sequence[str], variables: Mapping[str, str], folder: Path, out: Path, err: Path
) -> None:
    """What the fork does: it is the program, as if Python had been started with it."""
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload([*IMPORTED])
