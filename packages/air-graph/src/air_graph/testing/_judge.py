"""Judges a case: eager says what is right, `aot_eager` which wrong answers are torch's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch

from air_graph.testing._case import Case
from air_graph.testing._compare import Difference, differences
from air_graph.testing._run import Function, Trace, run_case

Backend = str | Callable[..., Any]
Kind = Literal["same", "dropped", "finding", "torch", "refused"]
_ADVICE: Final = re.compile(r"^\s*advice\b", re.MULTILINE)
_PLACE: Final = re.compile(r"^\s*(computed at|at)\s.*:\d+", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What a case came to."""

    kind: Kind
    differences: tuple[Difference, ...] = ()
    reason: str = ""
    """Why a refused case was refused."""

    @property
    def first(self) -> Difference:
        return self.differences[0]


def prepared(backend: Backend, case: Case, options: Mapping[str, Any]) -> Callable[[Function], Function]:
    """`torch.compile` as the case asks for it."""
    keywords: dict[str, Any] = {"backend": backend, "dynamic": case.dynamic}
    if options:
        keywords["options"] = dict(options)
    return lambda function: torch.compile(function, **keywords)


def run_compiled(case: Case, backend: Backend, options: Mapping[str, Any]) -> Trace:
    """The case with a compiled function, in a Dynamo that knows nothing of earlier ones."""
    torch._dynamo.reset()
    try:
        return run_case(case, prepared(backend, case, options))
    finally:
        torch._dynamo.reset()


@dataclass(frozen=True)
class Judge:
    """Runs cases in eager and compiled by a backend."""

    backend: Backend
    ignored: Collection[str] = ()
    """Kinds of differences that do not count."""

    def __call__(self, case: Case, asks_torch: bool = True) -> Verdict:
        """Where compiled differs from eager, `aot_eager` is run as well, unless torch is not asked."""
        expected = run_case(case)
        if expected.raised is not None:
            return Verdict("dropped")
        trace = run_compiled(case, self.backend, case.options)
        found = differences(expected, trace, case.is_exact, self.ignored)
        if not found:
            return Verdict("same")
        if (reason := refusal(found[0])) is not None:
            return Verdict("refused", tuple(found), reason)
        if not asks_torch:
            return Verdict("finding", tuple(found))
        torchs = differences(expected, run_compiled(case, "aot_eager", {}), case.is_exact, self.ignored)
        own = tuple(d for d in found if not _shared(d, torchs))
        return Verdict("finding", own) if own else Verdict("torch", tuple(found))


def _shared(difference: Difference, torchs: list[Difference]) -> bool:
    """Whether torch alone differs there as well, or has gone wrong before."""
    if torchs and torchs[0].step < difference.step:
        return True
    if any(t.kind == "raises" and t.step <= difference.step for t in torchs):
        return True
    return any((t.step, t.path, t.kind) == (difference.step, difference.path, difference.kind) for t in torchs)


def refusal(difference: Difference) -> str | None:
    """The reason of an error that says what, where and what to do; None for any other difference."""
    text = difference.detail
    if difference.kind != "raises" or not _ADVICE.search(text):
        return None
    if not _PLACE.search(text):
        return None
    return reason_of(text)


def reason_of(text: str) -> str:
    """The first sentence of an error without numbers and names of values, to count it under."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("backend=")]
    line = lines[0] if lines else text
    return re.sub(r"\b\d+\b", "N", re.sub(r"(?<=[a-z])_\d+\b", "", line))[:160]
