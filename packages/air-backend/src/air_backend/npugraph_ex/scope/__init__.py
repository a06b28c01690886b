"""Scopes of npugraph_ex: how many cores, and whether every run gives the same bits."""

from __future__ import annotations

from air_streams.scope import deterministic, limit_core_num

__all__ = ["deterministic", "limit_core_num"]
