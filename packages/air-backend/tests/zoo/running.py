"""Runs architectures in a process of their own, one at a time; one that hangs or crashes is a row and not the end."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from zoo.architectures import Architecture, version
from zoo.results import Outcome, Row
from zoo.worker import Step, Task, work

SECONDS: Final = 900.0
"""Of a processor, for one architecture, all ways to compile it together."""
PATIENCE: Final = 2.0
"""So many times as long it may take on a clock: other programs run beside."""
LOOKS: Final = 2.0
"""Seconds between two looks at how much it has used."""
START_SECONDS: Final = 300.0
PER_PROCESS: Final = 40
"""Architectures after which a process is replaced: libraries keep what they made."""


@dataclass
class _Worker:
    process: Any
    pipe: Any
    served: int = 0


def rows(task: Task, architectures: Iterable[Architecture], seconds: float = SECONDS) -> Iterator[Row]:
    """One row for each architecture, in their order."""
    worker: _Worker | None = None
    try:
        for architecture in architectures:
            if worker is None:
                worker = _started(task)
            row, alive = _row(worker, architecture, seconds)
            worker.served += 1
            if not alive or worker.served >= PER_PROCESS:
                _stopped(worker)
                worker = None
            yield row
    finally:
        if worker is not None:
            _stopped(worker)


def _started(task: Task) -> _Worker:
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=work, args=(task, theirs), daemon=True)
    process.start()
    theirs.close()
    if not pipe.poll(START_SECONDS):
        raise TimeoutError(f"a process of the zoo does not start: see {task.log}")
    pipe.recv()
    return _Worker(process, pipe)


def _stopped(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _row(worker: _Worker, architecture: Architecture, seconds: float) -> tuple[Row, bool]:
    """What the process says about an architecture, and whether it can take another."""
    row, now = Row(*architecture, version=version(architecture.library)), "made"
    until, enough = time.monotonic() + PATIENCE * seconds, _used(worker) + seconds
    try:
        worker.pipe.send(architecture)
        while time.monotonic() < until and _used(worker) < enough:
            if not worker.pipe.poll(min(LOOKS, max(0.0, until - time.monotonic()))):
                continue
            step: Step = worker.pipe.recv()
            if step.what == "end":
                return row, bool(step.done)
            now = step.what
            row = _with(row, step)
    except (EOFError, ConnectionError):
        worker.process.join()
        return _with(
            row, Step(now, Outcome("crash", f"the process ended with code {worker.process.exitcode}"))
        ), False
    return _with(row, Step(now, Outcome("slow", f"not done after {seconds:.0f} s"))), False


def _used(worker: _Worker) -> float:
    """The processor time of a worker, by the clock that `clock_getcpuclockid` names; 0 where there is none."""
    try:
        return time.clock_gettime((~worker.process.pid << 3) | 2)
    except OSError:
        return 0.0


def _with(row: Row, step: Step) -> Row:
    """A row with what came of one more step."""
    if step.done is None:
        return row
    if step.what not in ("made", "eager"):
        return replace(row, outcomes={**row.outcomes, step.what: step.done})
    if isinstance(step.done, Outcome):
        return replace(row, left_out=f"{step.what}: {step.done.reason}")
    good, told = step.done
    if not good:
        return replace(row, left_out=told if step.what == "made" else f"eager: {told}")
    return replace(row, made_of=told) if step.what == "made" else replace(row, is_random=told)
