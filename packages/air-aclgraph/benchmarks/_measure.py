"""Times several callables against each other in one process, and prints them as a table or as JSON.

Rounds are interleaved: every round times a burst of calls of every row, so that a disturbance of the machine
falls on all of them.  The device is idle when a call starts.  Two numbers are kept: the CPU time of the
calling thread, which other processes and the threads of a simulated device do not disturb, and the time on
the wall.  A row is the median of its calls.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOTE = "air-sim: host time above the ACL boundary, kernels and copies do nothing; this is not the performance of an NPU"


@dataclass
class Row:
    """One thing that is timed."""

    name: str
    call: Callable[[], Any]
    samples: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)

    @property
    def median_us(self) -> float:
        """CPU time of the calling thread per call."""
        return statistics.median(self.samples) * 1e6

    @property
    def wall_us(self) -> float:
        """Time on the wall per call."""
        return statistics.median(self.walls) * 1e6

    @property
    def spread(self) -> float:
        """Interquartile range over the median."""
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / statistics.median(self.samples)


def interleave(
    rows: list[Row], *, rounds: int = 20, burst: int = 10, settle: Callable[[], object] = lambda: None
) -> None:
    """Fills the samples of the rows; `settle` waits for queued work, outside the timed part."""
    for row in rows:
        for _ in range(5):
            row.call()
    settle()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for row in rows:
                for _ in range(burst):
                    start, cpu = time.perf_counter(), time.thread_time()
                    row.call()
                    row.samples.append(time.thread_time() - cpu)
                    row.walls.append(time.perf_counter() - start)
                    settle()
    finally:
        gc.enable()


def table(title: str, rows: list[Row], base: float, note: str = "") -> str:
    """The rows as text, each with its ratio to `base` microseconds."""
    lines = [title, "", f"{'':<52}{'us (thread)':>12}{'us (wall)':>11}{'x base':>8}{'iqr':>6}"]
    lines += [
        f"{row.name:<52}{row.median_us:>12.1f}{row.wall_us:>11.1f}{row.median_us / base:>8.2f}{row.spread:>6.0%}"
        for row in rows
    ]
    return "\n".join([*lines, "", *([note] if note else [])])


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
