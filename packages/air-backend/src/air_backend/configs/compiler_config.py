"""`CompilerConfig` and `logger`, where TorchAir has them."""

from __future__ import annotations

from air_backend.core.utils import logger
from air_config import CompilerConfig

__all__ = ["CompilerConfig", "logger"]
