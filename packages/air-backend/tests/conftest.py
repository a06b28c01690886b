"""Each test starts with a fresh Dynamo; tests marked `npu` are skipped where there is no NPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from air_backend import demo
from air_backend._ground import Ground, npu_present

sys.path.insert(0, str(Path(__file__).parent))  # programs next to the tests, whatever the import mode


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if npu_present():
        return
    skip = pytest.mark.skip(reason="needs an NPU, or air-sim: nox -s npu-air-backend")
    for item in items:
        if item.get_closest_marker("npu"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def host_demo() -> demo.DemoReport:
    """The demo on CPU tensors, as `air demo` runs it; it takes long enough to be run once."""
    return demo.run_demo(Ground(torch.device("cpu"), ("reduce-overhead", "max-autotune"), ""))
