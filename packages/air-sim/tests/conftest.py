"""Programs of these tests run in processes of their own when they need a switch from the start, or may not survive."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import air_sim
from air_sim import Switches, forks
from air_sim._activate import environment

Program = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the wheel under test."""
    if importlib.util.find_spec("torch_npu") is not None:
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="torch_npu is not installed"))


@pytest.fixture
def program(tmp_path: Path, started_program: Program) -> Program:
    """Runs Python source on air-sim under switches, in a process of its own; gives what it printed."""

    def run(source: str, *, timeout_s: int = 240, **switches: object) -> subprocess.CompletedProcess[str]:
        if not forks.serve(switches):
            return started_program(source, timeout_s=timeout_s, **switches)
        variables = environment(air_sim.build(), Switches.of(switches))
        return forks.run(source, variables=variables, folder=tmp_path, timeout_s=timeout_s)

    return run


@pytest.fixture
def started_program(tmp_path: Path) -> Program:
    """The same by `air-sim run`: for what happens when Python starts and ends."""

    def run(source: str, *, timeout_s: int = 240, **switches: object) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(source, encoding="utf-8")
        settings = [word for name, value in switches.items() for word in ("--set", f"{name}={value}")]
        clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        return subprocess.run(
            [sys.executable, "-m", "air_sim", "run", *settings, "python", str(script)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=clean,
            cwd=tmp_path,
        )

    return run


@pytest.fixture
def device() -> Iterator[str]:
    """The device, put back into order afterwards whatever a test did to it."""
    if air_sim.active() is None:
        pytest.skip("run with --sim")
    yield "npu"
    air_sim.change(
        fault="",
        seed=0,
        delay_us=0,
        launch_delay_us=0,
        noop=False,
        streams=1984,
        events=65535,
        replay_threads=2,
        sticky=True,
    )
    air_sim.recover()
