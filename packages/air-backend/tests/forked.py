"""Programs in processes of their own, without the seconds in which torch and Dynamo are imported.

The first call starts a server, which imports them and nothing of AIR; every program is a fork of it. What is said while
torch is imported (`TORCH_LOGS`, devices that load themselves) is that of the server: a program about these is started.
On air-sim a program is a fork of `air_sim.forks`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

IMPORTED: Final = ("torch", "torch._dynamo.backends.common", "torch.fx.experimental.proxy_tensor")
LIMIT_S: Final = 300
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload([*IMPORTED])


def run_python(
    source: str, *arguments: str, folder: Path, limit_s: int = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """Runs Python source in `folder`; gives what `subprocess.run` would give."""
    script = folder / "program.py"
    script.write_text(source)
    return _run(_program, str(script), *arguments, folder=folder, limit_s=limit_s)


def run_pytest(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return _run(_pytest, *arguments, folder=folder)


def _run(
    work: Callable[..., object], *words: str, folder: Path, limit_s: int = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """Calls a function of a module in a fork; what it prints and how it ends come back."""
    told = folder / "out", folder / "err"
    process = _server.Process(target=_become, args=(work, words, folder, *told))
    process.start()
    process.join(limit_s)
    if process.exitcode is None:
        process.kill()
        raise subprocess.TimeoutExpired(words, limit_s, *(file.read_text() for file in told))
    out, err = (file.read_text() for file in told)
    return subprocess.CompletedProcess(words, process.exitcode, out, err)


def on_air_sim(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python source beside the real torch_npu."""
    forks: Any = importlib.import_module("air_sim.forks")
    done: subprocess.CompletedProcess[str] = forks.run(source, folder=folder)
    return done


def _become(work: Callable[..., object], words: tuple[str, ...], folder: Path, out: Path, err: Path) -> None:
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.chdir(folder)
    work(*words)


def _program(script: str, *arguments: str) -> None:
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


def _pytest(*arguments: str) -> None:
    import pytest

    raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", *arguments]))
