"""`logger`, where npugraph_ex has it."""

from __future__ import annotations

from air_backend._logs import logger

__all__ = ["logger"]
