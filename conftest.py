"""What the tests of all packages share: torch's structured trace stays off under pytest."""

from __future__ import annotations

import logging
import sys


def pytest_collection_finish() -> None:
    """Keeps pytest's handlers from torch's trace, which takes time in every test that compiles.

    torch writes the trace wherever its logger has a handler, and pytest gives one to loggers that do not propagate.
    """
    if "torch" in sys.modules:
        logging.getLogger("torch.__trace").propagate = True
