"""What programs of several ranks tell of the cases they run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence


def told_equal_in(modes: Sequence[str], cases: set[str], done: subprocess.CompletedProcess[str]) -> None:
    """Every case is told to be equal, and a captured one was replayed."""
    told = dict(re.findall(r"^(.*): equal \((.*)\)$", done.stdout, re.MULTILINE))
    output = done.stdout + done.stderr[-4000:]
    assert set(told) == {f"{case}, {mode}" for case in cases for mode in modes}, output
    replays = [counts for line, counts in told.items() if line.endswith("reduce-overhead")]
    assert all(re.search(r"replays [1-9]", counts) for counts in replays), output
