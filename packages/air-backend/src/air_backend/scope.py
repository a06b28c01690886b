"""Scopes of TorchAir's `torchair.scope`: which stream, how many cores, in which order."""

from __future__ import annotations

from air_streams.scope import limit_core_num, npu_stream_switch, npu_wait_tensor

__all__ = ["limit_core_num", "npu_stream_switch", "npu_wait_tensor"]
