"""The logger under the module names of TorchAir."""

from __future__ import annotations

from air_backend.core import utils

__all__ = ["utils"]
