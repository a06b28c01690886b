"""Programs as clients of TorchAir write them: AIR stands in for all of a module's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where there is an NPU, all of them run beside it, those with tensors of the CPU too."""
    from air_backend._ground import npu_present

    if not npu_present():
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("npu")


@pytest.fixture(autouse=True, scope="module")
def in_place() -> Iterator[None]:
    from air_backend import _alias

    _alias.install_as_torchair()
    yield
    _alias.uninstall()


@pytest.fixture(autouse=True)
def aliases_allowed() -> Iterator[None]:
    """Operators of torch_npu give back what they are given."""
    from air_graph.testing.strictness import results_that_are_arguments

    with results_that_are_arguments(refused=False):
        yield
