"""Capture and replay on accelerators."""

from __future__ import annotations

from air_aclgraph.device._runtime import AcceleratorRuntime

__all__ = ["AcceleratorRuntime"]
