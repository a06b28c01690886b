"""Scopes of npugraph_ex: how many cores, and how far the bits of results are the same in every run."""

from __future__ import annotations

from air_streams.scope import deterministic, limit_core_num

__all__ = ["deterministic", "limit_core_num"]
