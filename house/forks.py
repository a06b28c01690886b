"""Runs programs as forks of one process that has imported torch, which takes each of them five seconds by itself.

    python -m house.forks "house.api --check" "examples/export/export.py"    as `python -m` and `python` run them

A fork begins with what its program would import anyway: modules of torch, and those it names; no device was used. It
has streams, arguments and a `__main__` of its own, and counts as ended well only if it came to its last line.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

TIMEOUT_S: Final = 300
#: What the first `torch.compile` of a process imports, whatever its backend.
TORCH: Final = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.compile_fx",
    "torch.export._trace",
)

Program = Callable[[], object]
Files = tuple[
    IO[bytes], IO[bytes], IO[bytes]
]  # for what is printed, what is printed of errors, and the exit code


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, or none where it died or left before its end, and what it printed."""

    code: int | None
    status: int
    output: str
    errors: str

    @property
    def fault(self) -> str | None:
        """What went wrong, with all that was printed, or nothing."""
        if self.code == 0:
            return None
        how = f"exit code {self.code}" if self.code is not None else f"its process ended ({self.status})"
        return f"{how}\n{self.output}{self.errors}"


def prepare(*modules: str, compiles: bool = False) -> None:
    """Imports what the programs share; compiles one small function with torch's own backend where that is asked for.

    The first compilation of a process makes tables of torch. None is made where a device could be started by it.
    """
    for module in modules:
        importlib.import_module(module)
    if compiles:
        _compile_once()
    gc.collect()
    gc.freeze()  # a search for cycles would copy every page of memory that forks share


def _compile_once() -> None:
    import torch
    from torch._dynamo.utils import counters

    with torch.no_grad():
        torch.compile(lambda x: torch.relu(x @ x) + 1, backend="aot_eager")(torch.ones(2, 2))
    torch._dynamo.reset()
    counters.clear()


def command(words: Sequence[str], folder: Path) -> Program:
    """What `python words...` does in a folder, or `python -m words...` where the first is no file."""

    def run() -> None:
        os.chdir(folder)
        sys.argv[:] = words
        if Path(words[0]).is_file():
            sys.path[0] = str(Path(words[0]).resolve().parent)
            runpy.run_path(words[0], run_name="__main__")
        else:
            sys.path[0] = str(folder)
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)

    return run


def ended(programs: Sequence[Program], at_once: int | None = None) -> list[Ended]:
    """Runs each program in a fork, as many at a time as there are processors."""
    waiting = list(enumerate(programs))[::-1]
    running: dict[int, tuple[int, Files]] = {}
    found: dict[int, Ended] = {}
    while waiting or running:
        while waiting and len(running) < (at_once or os.cpu_count() or 1):
            number, program = waiting.pop()
            files = _files()
            running[fork(program, *files)] = number, files
        pid, status = os.wait()
        if pid in running:
            number, files = running.pop(pid)
            found[number] = _read(status, *files)
    return [found[number] for number in range(len(programs))]


def _files() -> Files:
    return (tempfile.TemporaryFile(), tempfile.TemporaryFile(), tempfile.TemporaryFile())


def fork(program: Program, output: IO[bytes], errors: IO[bytes], end: IO[bytes]) -> int:
    """Starts a program in a fork; its number. The exit code is written to the last file, where there comes one."""
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for place, file in enumerate((nothing, output.fileno(), errors.fileno())):
            os.dup2(file, place)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TIMEOUT_S)
        code = _exit_code(program)
        sys.stdout.flush()
        os.write(end.fileno(), str(code).encode())
    finally:
        os._exit(0)


def _exit_code(program: Program) -> int:
    """Runs a program to its end, with all that it left for then."""
    try:
        program()
        code: object = 0
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    return code if isinstance(code, int) else 1


def _read(status: int, *files: IO[bytes]) -> Ended:
    texts = []
    for file in files:
        with file:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    output, errors, code = texts
    return Ended(int(code) if code else None, status, output, errors)


def main(commands: Sequence[str], modules: Sequence[str] = TORCH) -> int:
    """Runs commands beside each other; 1 if one of them failed. All that was printed is shown, in their order."""
    begun = time.monotonic()
    prepare(*modules)
    results = ended([command(shlex.split(text), Path.cwd()) for text in commands])
    for text, result in zip(commands, results, strict=True):
        sys.stdout.write(f"> {text}\n{result.fault or result.output}")
    failed = sum(result.fault is not None for result in results)
    sys.stdout.write(f"{len(results)} programs, {failed} failed, {time.monotonic() - begun:.0f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
