"""Runs many cases, shrinks what fails, and counts."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from air_graph.testing._calls import draw_case
from air_graph.testing._case import Case
from air_graph.testing._compare import Difference
from air_graph.testing._judge import Judge, Verdict
from air_graph.testing._programs import FAMILIES
from air_graph.testing._shrink import shrink


@dataclass(frozen=True)
class Finding:
    """A case for which the backend differs from eager, and torch alone does not."""

    seed: int
    case: Case
    difference: Difference

    @property
    def group(self) -> tuple[str, str]:
        """The kind of difference and the operators that the smallest program still has."""
        path = self.difference.path if self.difference.kind == "raises" else ""
        return f"{self.difference.kind} {path}".strip(), " ".join(self.case.tags()) or "return"

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.difference}\n{self.case}"


@dataclass
class Report:
    """What a campaign came to."""

    programs: int = 0
    same: int = 0
    dropped: int = 0
    torch: list[int] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    """The time that processes have worked, one after the other or at once."""

    def merge(self, other: Report) -> None:
        self.programs += other.programs
        self.same += other.same
        self.dropped += other.dropped
        self.torch += other.torch
        self.refused += other.refused
        self.findings += other.findings
        self.seconds += other.seconds

    def groups(self) -> dict[tuple[str, str], list[Finding]]:
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault(finding.group, []).append(finding)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def __str__(self) -> str:
        rate = self.programs / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.programs} programs in {self.seconds:.0f} s ({rate:.1f}/s): {self.same} as eager, "
            f"{len(self.findings)} findings, {len(self.torch)} torch's own, {self.refused.total()} refused, "
            f"{self.dropped} that eager refuses"
        ]
        if self.torch:
            lines.append(f"torch's own: seeds {' '.join(map(str, self.torch))}")
        lines += [f"refused {count}: {reason}" for reason, count in self.refused.most_common()]
        for (kind, operators), findings in self.groups().items():
            smallest = min(findings, key=lambda f: len(str(f.case)))
            seeds = " ".join(str(f.seed) for f in findings)
            lines += ["", f"=== {len(findings)} x {kind} with {operators}; seeds {seeds}", str(smallest)]
        return "\n".join(lines)


def campaign(
    judge: Judge,
    seeds: Iterable[int],
    options: Sequence[Mapping[str, Any]] = ({},),
    device: str = "cpu",
    families: Sequence[str] = tuple(FAMILIES),
    shrink_seconds: float = 20.0,
    notice: Callable[[Finding], None] | None = None,
) -> Report:
    """The cases of all seeds, one after the other; `notice` hears of every finding at once."""
    report, start = Report(), time.monotonic()
    for seed in seeds:
        case = draw_case(seed, options, device, families)
        report.programs += 1
        if case is None:
            report.dropped += 1
            continue
        finding = _count(report, seed, case, judge, shrink_seconds)
        if finding is not None and notice is not None:
            notice(finding)
        if report.programs % 100 == 0:
            gc.collect()
    report.seconds = time.monotonic() - start
    return report


def _count(report: Report, seed: int, case: Case, judge: Judge, seconds: float) -> Finding | None:
    verdict = judge(case)
    if verdict.kind == "same":
        report.same += 1
    elif verdict.kind == "dropped":
        report.dropped += 1
    elif verdict.kind == "torch":
        report.torch.append(seed)
    elif verdict.kind == "refused":
        report.refused[verdict.reason] += 1
    else:
        finding = smallest(seed, case, verdict, judge, seconds)
        report.findings.append(finding)
        return finding
    return None


def smallest(seed: int, case: Case, verdict: Verdict, judge: Judge, seconds: float) -> Finding:
    """The finding after shrinking: a difference of the same kind, that torch alone does not have.

    Whether torch has it is asked at the end, since each question costs as much as the case; where shrinking led to
    one that torch has, it is done again with the question asked every time.
    """
    for asks_torch in (False, True):

        def fails(candidate: Case, asks_torch: bool = asks_torch) -> bool:
            found = judge(candidate, asks_torch)
            return found.kind == "finding" and _kind_of(found) == _kind_of(verdict)

        small = shrink(case, fails, verdict.first.path, seconds)
        last = judge(small)
        if last.kind == "finding":
            return Finding(seed, judge.complete(small), last.first)
    return Finding(seed, judge.complete(case), verdict.first)


def _kind_of(verdict: Verdict) -> str:
    first = verdict.first
    return f"{first.kind} {first.path}" if first.kind == "raises" else first.kind
