"""Devices to run on, and the modules next to the tests, whatever the import mode.

torch is imported by the hooks: the process that hands the tests out to workers reads this file too, and runs none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from air_graph.testing import devices

    devices.spread(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from air_graph.testing import devices

    devices.skip_absent(items)
