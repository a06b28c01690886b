"""Times several callables against each other in one process, and prints them as a table or as JSON.

Rounds are interleaved: every round times a burst of calls of every row, so that a disturbance of the machine
falls on all of them.  What counts is the CPU time of the calling thread, which other processes and the threads of
a simulated device do not add to; they still empty the processor's caches.  So each row has two numbers: the
median of its calls, which is what this machine gave, and the least of them, which is closest to an idle machine.

On a simulated device the stream is held busy while a call is timed, as it is in a loop that decodes: the call
queues its work and returns.  Waking the thread that plays the device is no work of the host program.
"""

from __future__ import annotations

import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

NOTE = "air-sim: host time above the ACL boundary, kernels and copies do nothing; this is not the performance of an NPU"


class Device(Protocol):
    """What happens on the device around a timed call."""

    def hold(self) -> None:
        """Before a call."""

    def release(self) -> None:
        """After a call: waits for its work."""


class Idle:
    """The device is idle when a call starts; `settle` waits for queued work, outside the timed part."""

    def __init__(self, settle: Callable[[], object] = lambda: None) -> None:
        self._settle = settle

    def hold(self) -> None:
        return

    def release(self) -> None:
        self._settle()


class HeldStream:
    """The current npu stream waits for a semaphore while a call is timed."""

    def __init__(self) -> None:
        self._module: Any = torch.get_device_module("npu")
        self._launch: Any = ctypes.CDLL("libascendcl.so").aclrtLaunchHostFunc
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)
        self._libc.sem_init(self._semaphore, 0, 0)
        self._wait = ctypes.cast(self._libc.sem_wait, ctypes.c_void_p)
        self._stream = ctypes.c_void_p(self._module.current_stream().npu_stream)
        self._at = ctypes.c_void_p(ctypes.addressof(self._semaphore))

    def hold(self) -> None:
        if self._launch(self._stream, self._wait, self._at) != 0:
            raise RuntimeError("aclrtLaunchHostFunc refused to hold the stream")

    def release(self) -> None:
        self._libc.sem_post(self._semaphore)
        self._module.synchronize()


def device_of(name: str) -> Device:
    """How calls on this device are timed: cpu, a simulated npu, or a device of its own clock."""
    if name == "cpu":
        return Idle()
    return HeldStream() if name == "npu" else Idle(torch.get_device_module(name).synchronize)


@dataclass
class Row:
    """One thing that is timed; `around` is entered once per burst, outside the timed part.

    `after` follows each call, outside the timed part too: what leaves the device as busy as the other rows leave it.
    Waiting for the device empties the processor's caches, the longer the more.
    """

    name: str
    call: Callable[[], Any]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    after: Callable[[], Any] = lambda: None
    samples: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)

    @property
    def median_us(self) -> float:
        """CPU time of the calling thread per call."""
        return statistics.median(self.samples) * 1e6

    @property
    def least_us(self) -> float:
        """The least CPU time of the calling thread."""
        return min(self.samples) * 1e6

    @property
    def wall_us(self) -> float:
        """Time on the wall per call."""
        return statistics.median(self.walls) * 1e6

    def as_dict(self) -> dict[str, float]:
        return {"least_us": self.least_us, "median_us": self.median_us, "wall_us": self.wall_us}


@dataclass(frozen=True)
class Mean:
    """Rows of one name, each with a model of its own, as one: the mean of their times."""

    name: str
    least_us: float
    median_us: float
    wall_us: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Mean:
        """The mean of rows that are timed alike."""
        times = [[getattr(row, time) for row in rows] for time in ("least_us", "median_us", "wall_us")]
        return cls(rows[0].name, *map(statistics.mean, times))

    def as_dict(self) -> dict[str, float]:
        return {"least_us": self.least_us, "median_us": self.median_us, "wall_us": self.wall_us}


def interleave(rows: list[Row], *, rounds: int = 20, burst: int = 10, device: Device | None = None) -> None:
    """Fills the samples of the rows."""
    device = device or Idle()
    for row in rows:
        with row.around():
            for _ in range(5):
                row.call()
    device.hold()
    device.release()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for row in rows:
                with row.around():
                    _burst(row, burst, device)
    finally:
        gc.enable()


def _burst(row: Row, burst: int, device: Device) -> None:
    for _ in range(burst):
        device.hold()
        start, cpu = time.perf_counter(), time.thread_time()
        row.call()
        row.samples.append(time.thread_time() - cpu)
        row.walls.append(time.perf_counter() - start)
        row.after()
        device.release()


def table(title: str, rows: Sequence[Row | Mean], base: tuple[float, float], note: str = "") -> str:
    """The rows as text, with their ratios to a base: its least and its median in microseconds."""
    lines = [
        title,
        "",
        f"{'us of the calling thread':<52}{'least':>8}{'x base':>8}{'median':>9}{'x base':>8}{'wall':>8}",
    ]
    lines += [
        f"{row.name:<52}{row.least_us:>8.1f}{row.least_us / base[0]:>8.2f}{row.median_us:>9.1f}"
        f"{row.median_us / base[1]:>8.2f}{row.wall_us:>8.1f}"
        for row in rows
    ]
    return "\n".join([*lines, "", *([note] if note else [])])


def numbers(rows: Sequence[Row | Mean]) -> dict[str, dict[str, float]]:
    """The rows for a JSON file."""
    return {row.name: row.as_dict() for row in rows}


def show(text: str) -> None:
    """Prints a table at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write(path: str | None, results: Mapping[str, Any]) -> None:
    """Adds results to a JSON file."""
    if path is None:
        return
    target = Path(path)
    known = json.loads(target.read_text()) if target.exists() else {}
    target.write_text(json.dumps({**known, **results}, indent=1) + "\n")
