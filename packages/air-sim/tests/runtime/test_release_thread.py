"""torch_npu's release thread looks for work all the time: on air-sim it may sleep for a millisecond in between."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu

AT_MOST = 3000
"""Pauses a second. Without a longer timer slack there are about 15,000, with it fewer than 1,000."""

LAUNCHES = 100


def release_threads() -> list[Path]:
    tasks = Path("/proc/self/task").iterdir()
    return [task for task in tasks if (task / "comm").read_text().strip() == "release_thread"]


def pauses(thread: Path) -> int:
    status = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
    return int(status["voluntary_ctxt_switches"])


def test_a_release_thread_sleeps_for_a_millisecond() -> None:
    x = torch.ones(4, device="npu")
    assert (x + 1).cpu().tolist() == [2.0] * 4
    for _ in range(LAUNCHES):  # by then it has its name
        x.add_(1)
    torch.npu.synchronize()
    threads = release_threads()
    assert threads
    begun, before = time.monotonic(), [pauses(each) for each in threads]
    time.sleep(0.2)
    taken = [pauses(each) - one for each, one in zip(threads, before, strict=True)]
    seconds = time.monotonic() - begun
    assert max(taken) < AT_MOST * seconds
