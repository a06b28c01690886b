"""What a pipeline did, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from air_fxpasses._refusal import Refusal


@dataclass(frozen=True)
class Step:
    """One pass of one run."""

    name: str
    modified: bool
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    seconds: float
    nodes_before: int
    nodes_after: int
    rolled_back: str = ""
    """Why the step was undone; empty when it stands."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "modified": self.modified,
            "seconds": self.seconds,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "rolled_back": self.rolled_back,
            "notes": list(self.notes),
            "refusals": [r.to_dict() for r in self.refusals],
        }


@dataclass(frozen=True)
class PipelineReport:
    """The steps of one run, in order."""

    steps: tuple[Step, ...]
    seconds: float
    unverified: str = ""
    """Why numerics were not checked although verification was asked for."""

    @classmethod
    def joined(cls, reports: Iterable[PipelineReport]) -> PipelineReport:
        """One report of several runs, one after the other."""
        runs = tuple(reports)
        unverified = next((run.unverified for run in runs if run.unverified), "")
        return cls(
            tuple(step for run in runs for step in run.steps), sum(run.seconds for run in runs), unverified
        )

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Every reason why something was left as it was."""
        return tuple(r for step in self.steps for r in step.refusals)

    @property
    def modified(self) -> bool:
        """Whether any step changed the graph."""
        return any(step.modified for step in self.steps)

    def step(self, name: str) -> Step:
        """The first step of that name."""
        return next(step for step in self.steps if step.name == name)

    def summary(self) -> str:
        """One line."""
        changed = [step.name for step in self.steps if step.modified]
        return f"{len(self.steps)} passes in {self.seconds * 1e3:.1f} ms, changed by: {', '.join(changed) or 'none'}"

    def explain(self) -> str:
        """What every pass did, and why it left alone what it left alone."""
        lines = [self.summary()]
        if self.unverified:
            lines.append(f"numerics not verified: {self.unverified}")
        for step in self.steps:
            state = (
                f"rolled back: {step.rolled_back}"
                if step.rolled_back
                else "; ".join(step.notes) or ("changed" if step.modified else "no change")
            )
            lines.append(f"{step.name}  [{step.nodes_before} -> {step.nodes_after} nodes]  {state}")
            for refusal, count in Counter(step.refusals).items():
                times = f" x{count}" if count > 1 else ""
                lines.append("  - " + str(refusal).replace("\n", "\n  ") + times)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "seconds": self.seconds,
            "unverified": self.unverified,
            "steps": [step.to_dict() for step in self.steps],
        }
