"""Weights in internal formats, where TorchAir has them."""

from __future__ import annotations

from air_backend._formats import npu_format_cast_via_cpu, use_internal_format_weight
from air_backend.core.utils import logger

__all__ = ["logger", "npu_format_cast_via_cpu", "use_internal_format_weight"]
