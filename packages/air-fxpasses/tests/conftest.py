"""Options and quiet logs for the tests of this package, and the modules next to them, whatever the import mode."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-programs",
        type=int,
        default=400,
        help="how many random programs the fuzz test proves the passes on",
    )


@pytest.fixture(autouse=True, scope="session")
def _quiet_fake_tensors() -> None:
    """Random programs ask fake kernels for impossible things, and torch logs every refusal as an error."""
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
