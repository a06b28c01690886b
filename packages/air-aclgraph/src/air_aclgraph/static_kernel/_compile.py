"""Calls `op_compiler`: as many jobs as the process may use, a time limit, its output in a file.

What it will cost is said before it is paid, from what earlier runs cost; on a terminal a bar shows how far it is.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from air_aclgraph.static_kernel._select import Operator
from air_aclgraph.static_kernel.errors import StageFailed, files_of, last_lines
from air_config import variables
from air_graph.progress import Progress, progress_on_terminal, showing

log = logging.getLogger(__name__)

TOOL: Final = "op_compiler"
LEVELS: Final = {"0": "debug", "1": "info", "2": "warning", "3": "error"}
_WIDTH: Final = 30
_TICK_S: Final = 0.2
_GRACE_S: Final = 2.0  # between asking the compiler to end and ending it


@dataclass(frozen=True)
class Job:
    """One call of the compiler."""

    soc: str
    jobs: int
    time_limit_s: float | None
    flags: tuple[str, ...]
    expected_s: float | None


def announce(count: int, job: Job, products: Path) -> None:
    """Says what is about to be paid."""
    about = "nothing was compiled before to judge by" if job.expected_s is None else _span(job.expected_s)
    limit = "no limit" if job.time_limit_s is None else f"at most {_span(job.time_limit_s)}"
    log.warning(
        "static kernels: compiling %d operators with %d jobs; expected: %s; %s; products in %s",
        count, job.jobs, about, limit, products,
    )  # fmt: skip


def compile_operators(operators: Sequence[Operator], job: Job, output: Path, log_file: Path) -> float:
    """Compiles operators into an installer in `output`; gives the seconds it took."""
    tool = shutil.which(TOOL)
    if tool is None:
        raise StageFailed(
            f"{TOOL} is not on the PATH",
            advice="source set_env.sh of the CANN toolkit, which has it",
            stage="compile",
            command=TOOL,
            operators=_digests(operators),
        )
    given = output / "operators"
    with files_of("compile", "the operators cannot be copied"):
        given.mkdir()
        for operator in operators:
            shutil.copyfile(operator.file, given / operator.file.name)
    command = [tool, "-p", str(given), "-v", job.soc, "-j", str(job.jobs), "-o", str(output)]
    command += [*_level(), *job.flags]
    started = time.monotonic()
    code = _run(command, job, log_file, len(operators))
    if code != 0:
        raise _failed(command, code, job, log_file, operators)
    return time.monotonic() - started


def _level() -> tuple[str, ...]:
    level = LEVELS.get(os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "3"))
    return () if level is None else ("-l", level)


def _run(command: Sequence[str], job: Job, log_file: Path, count: int) -> int | None:
    """The exit code; None when the time was up."""
    try:
        with log_file.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise StageFailed(
            f"{TOOL} cannot be started: {error}",
            advice="see that it is an executable of this machine",
            stage="compile",
            command=shlex.join(command),
        ) from error
    screen = progress_on_terminal(count, wanted=variables.switch("ACLGRAPH_PROGRESS", True))
    try:
        with showing(screen, "static kernels"):
            return _waited(process, job, count, screen)
    finally:
        if process.poll() is None:
            _end(process)


def _waited(process: subprocess.Popen[bytes], job: Job, count: int, screen: Progress | None) -> int | None:
    started = time.monotonic()
    while True:
        elapsed = time.monotonic() - started
        if job.time_limit_s is not None and elapsed >= job.time_limit_s:
            return None
        if screen is not None:
            screen.draw(progress(elapsed, job.expected_s, count))
        left = _TICK_S if job.time_limit_s is None else min(_TICK_S, job.time_limit_s - elapsed)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=left)


def progress(elapsed_s: float, expected_s: float | None, count: int) -> str:
    """One line: a bar where the time can be judged, the time alone otherwise."""
    text = f"static kernels: {count} operators, {_span(elapsed_s)}"
    if not expected_s:
        return text
    full = min(_WIDTH - 1, int(_WIDTH * elapsed_s / expected_s))
    return f"{text} of about {_span(expected_s)} [{'#' * full}{'.' * (_WIDTH - full)}]"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the compiler and what it has started: they are a process group of their own.

    The compiler is waited for last: while it is, the number of its group belongs to nobody else.
    """
    os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failed(
    command: Sequence[str], code: int | None, job: Job, log_file: Path, operators: Sequence[Operator]
) -> StageFailed:
    if code is None:
        what = f"{TOOL} was ended after {job.time_limit_s:g} s"
        advice = (
            "raise air.static_kernel.time_limit_s, or leave operators out with air.static_kernel.blacklist"
        )
    else:
        what = f"{TOOL} failed" if code >= 0 else f"{TOOL} was killed by {signal.Signals(-code).name}"
        advice = "see the log; leave operators out with air.static_kernel.blacklist"
    end = last_lines(log_file)
    return StageFailed(
        what + (f":\n    {end}" if end else ""),
        advice=advice,
        stage="compile",
        command=shlex.join(command),
        exit_code=code,
        log=str(log_file),
        operators=_digests(operators),
    )


def _digests(operators: Sequence[Operator]) -> tuple[str, ...]:
    return tuple(operator.digest for operator in operators)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
