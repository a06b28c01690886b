"""Capture and replay on plain CPU tensors."""

from __future__ import annotations

from air_aclgraph.host._runtime import HostRuntime

__all__ = ["HostRuntime"]
