"""`register_replacement`, where npugraph_ex has it."""

from __future__ import annotations

from air_fxpasses import register_replacement

__all__ = ["register_replacement"]
