"""Scopes of TorchAir's `torchair.scope`: which stream, how many cores, in which order, and what the engine is told."""

from __future__ import annotations

from air_backend.dump import data_dump
from air_streams.scope import (
    deterministic,
    limit_core_num,
    npu_stream_switch,
    npu_wait_tensor,
    op_never_timeout,
    super_kernel,
)

__all__ = [
    "data_dump",
    "deterministic",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]
