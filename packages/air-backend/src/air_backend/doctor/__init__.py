"""Says what of AIR works on this machine, and what to do about the rest."""

from __future__ import annotations

from air_backend.doctor._checks import CHECKS
from air_backend.doctor._finding import Finding, State

__all__ = ["CHECKS", "Finding", "State", "examine"]


def examine() -> tuple[Finding, ...]:
    """Runs every check in order."""
    return tuple(check() for check in CHECKS)
