"""torch_npu's release thread looks for work all the time: on air-sim it may sleep for a millisecond in between."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu

LAUNCHES = 100
"""After so many the thread has its name, and was looked for."""


def release_threads() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    return [task.name for task in tasks if (task / "comm").read_text().strip() == "release_thread"]


def slack_of(thread: str) -> int:
    """By how many nanoseconds Linux may end its pauses later. Where other timers run out, it ends them earlier."""
    try:
        return int(Path(f"/proc/{thread}/timerslack_ns").read_text())
    except PermissionError:
        pytest.skip("only a privileged process is told the timer slack of a thread")


def test_a_release_thread_may_sleep_for_a_millisecond() -> None:
    x = torch.zeros(4, device="npu")
    for _ in range(LAUNCHES):
        x.add_(1)
    assert x.cpu().tolist() == [LAUNCHES] * 4
    threads = release_threads()
    assert threads
    assert {slack_of(thread) for thread in threads} == {1_000_000}
