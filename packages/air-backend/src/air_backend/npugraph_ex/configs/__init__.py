"""Options of npugraph_ex, which lie flat."""

from __future__ import annotations

from air_backend.npugraph_ex.configs import compiler_config

__all__ = ["compiler_config"]
