"""What torch's documentation shows, compiled call by call, gives what eager gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from documented_calls import SHARDS
from forked import run_python

LIMIT_S = 1700


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_documented_calls_give_what_eager_gives(mode: str, shard: int, tmp_path: Path) -> None:
    """In a process of its own: examples rename devices and register what torch then has for good."""
    program = "import documented_calls; documented_calls.main()"
    done = run_python(program, mode, str(shard), "found.json", folder=tmp_path, limit_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    calls, wrong = json.loads((tmp_path / "found.json").read_text())
    assert calls > 100
    assert not wrong, "\n".join(wrong)
