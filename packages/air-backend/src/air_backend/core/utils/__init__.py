"""`logger`, where TorchAir has it: `logger.setLevel(logging.DEBUG)` shows the log of all packages."""

from __future__ import annotations

from air_backend._logs import EVENT, logger

__all__ = ["EVENT_LEVEL", "logger"]

#: The level of `logger.event`, above WARNING.
EVENT_LEVEL = EVENT
