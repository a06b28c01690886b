"""Devices to run on, and the modules next to the tests, whatever the import mode.

torch is imported by hooks and fixtures: the process that hands out the tests to workers reads this file too, and runs
none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "air-fxpasses" / "tests"))  # for random_programs
sys.path.append(str(Path(__file__).parents[2] / "air-streams" / "tests"))  # for streams_programs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from air_graph.testing import devices

    devices.spread(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from air_graph.testing import devices

    devices.skip_absent(items)


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def in_order_again() -> Iterator[None]:
    """For tests that let air-sim delay what the device does: afterwards it delays nothing."""
    import torch

    air_sim = pytest.importorskip("air_sim")
    if air_sim.active() is None:
        pytest.skip("air-sim delays what the device does")
    first = torch.accelerator.current_stream()
    yield
    torch.accelerator.set_stream(first)
    air_sim.change(seed=0, delay_us=0, launch_delay_us=0)
