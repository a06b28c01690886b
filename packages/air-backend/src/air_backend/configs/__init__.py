"""The configuration under the module names of TorchAir."""

from __future__ import annotations

from air_backend.configs import compiler_config

__all__ = ["compiler_config"]
