"""Scopes of TorchAir's `torchair.scope`: which stream, how many cores, in which order, which tensors are dumped."""

from __future__ import annotations

from air_backend.dump import data_dump
from air_streams.scope import limit_core_num, npu_stream_switch, npu_wait_tensor

__all__ = ["data_dump", "limit_core_num", "npu_stream_switch", "npu_wait_tensor"]
