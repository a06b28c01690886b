"""A broken rule, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from air_geir.errors import VerificationError


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule of the loader that a model breaks."""

    rule: str
    """A stable name such as `edges.producer`."""
    where: str
    """Graph and node."""
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem} [{self.rule}]"


def raise_for(violations: Sequence[Violation], what: str) -> None:
    """Raises an error that lists the violations; does nothing when there are none."""
    if violations:
        shown = [str(v) for v in violations[:20]]
        more = [f"... and {len(violations) - 20} more"] if len(violations) > 20 else []
        raise VerificationError(
            f"{what} breaks {len(violations)} rule(s) of the loader:\n  " + "\n  ".join(shown + more),
            advice="repair each of them: the name in brackets is the rule's",
        )
