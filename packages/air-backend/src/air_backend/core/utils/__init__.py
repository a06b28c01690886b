"""`logger`, where TorchAir has it: `logger.setLevel(logging.DEBUG)` shows the log of all packages."""

from __future__ import annotations

from air_backend._logs import logger

__all__ = ["logger"]
