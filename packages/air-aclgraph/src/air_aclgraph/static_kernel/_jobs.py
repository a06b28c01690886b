"""How many compilations at a time: the CPUs this process may use, by affinity and by its control group.

`os.cpu_count()` is the machine; a container with a quota of four CPUs on a node of 192 would be flooded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")


def available_jobs(root: Path = ROOT, own: Path = OWN) -> int:
    """At least one; never more than the affinity mask or the tightest quota above this process allows."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([usable, *(math.ceil(quota) for quota in _quotas(root, own))]))


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """The CPUs of each quota that applies: of the group itself and of every group above it."""
    for folder in _groups(root, own):
        both = _words(folder / "cpu.max")
        if len(both) == 2 and both[0] != "max":
            yield int(both[0]) / int(both[1])
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            yield int(quota[0]) / int(period[0])


def _groups(root: Path, own: Path) -> Iterator[Path]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    yield from (root, root / "cpu", root / "cpu,cpuacct")
    for line in lines:
        _, controllers, name = line.split(":", 2)
        base = root if not controllers else root / controllers
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = Path(name.strip("/"))
        for part in (group, *group.parents):
            if part != Path("."):
                yield base / part


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split()
    except OSError:
        return []
