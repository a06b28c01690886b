"""`CompilerConfig`, where TorchAir has it."""

from __future__ import annotations

from air_config import CompilerConfig

__all__ = ["CompilerConfig"]
