"""Programs as clients of TorchAir write them: AIR stands in for all of a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def in_place() -> Iterator[None]:
    from air_backend import _alias

    _alias.install_as_torchair()
    yield
    _alias.uninstall()
