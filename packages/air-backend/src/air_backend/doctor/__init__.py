"""Says what of AIR works on this machine, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Callable

from air_backend.doctor._checks import CHECKS
from air_backend.doctor._finding import Finding, State

__all__ = ["CHECKS", "Finding", "State", "examine"]


def examine() -> tuple[Finding, ...]:
    """Runs every check in order; one that fails itself is a finding, and the others are made."""
    return tuple(_made(check) for check in CHECKS)


def _made(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # whatever an installation that is broken raises
        subject, seen = check.__name__.removeprefix("check_"), f"{type(error).__name__}: {error}"
        return Finding(
            subject, "broken", f"it cannot be looked at: {seen}", "install it again, or report this"
        )
