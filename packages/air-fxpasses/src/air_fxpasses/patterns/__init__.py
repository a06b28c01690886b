"""Fusion patterns as data: rows, the matcher that explains itself, and registration."""

from __future__ import annotations

from air_fxpasses.patterns._row import ExtraCheck, FusionPattern, Match
from air_fxpasses.patterns._table import (
    register_pattern,
    register_replacement,
    registered_patterns,
    unregister_pattern,
)

__all__ = [
    "ExtraCheck",
    "FusionPattern",
    "Match",
    "register_pattern",
    "register_replacement",
    "registered_patterns",
    "unregister_pattern",
]
