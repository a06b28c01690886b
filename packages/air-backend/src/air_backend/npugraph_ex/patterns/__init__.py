"""Patterns of the user, under the module names of npugraph_ex."""

from __future__ import annotations

from air_backend.npugraph_ex.patterns import pattern_pass_manager

__all__ = ["pattern_pass_manager"]
