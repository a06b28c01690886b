"""`logger`, where TorchAir has it: the parent of all loggers of this package.

A script that calls `logger.setLevel(logging.DEBUG)` sees what `TORCH_LOGS=+air_backend` shows.
"""

from __future__ import annotations

import logging
from typing import Final

logger: Final = logging.getLogger("air_backend")

__all__ = ["logger"]
