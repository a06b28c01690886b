"""Judges a case: eager says what is right, backends of torch which wrong answers are torch's own."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from unittest import mock

import torch
import torch._dynamo.guards

from air_graph.testing._case import Case
from air_graph.testing._compare import Difference, differences
from air_graph.testing._run import Function, Trace, run_case

Backend = str | Callable[..., Any]
Kind = Literal["same", "dropped", "finding", "torch", "refused"]
#: Differences that no later value shows.
UNSEEN: Final = frozenset({"stride of a size 1", "stride of an empty tensor", "identity"})
_ADVICE: Final = re.compile(r"^\s*advice\b", re.MULTILINE)
#: How often a run that had little of the processor is given its time once more.
_MORE: Final = 4
_PLACE: Final = re.compile(r"^\s+(at +|line +)?\S+:\d+\b", re.MULTILINE)


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


def _guards_not_measured() -> contextlib.AbstractContextManager[object]:
    """Dynamo measures how long new guards take, with the caches of the processor emptied first; that is slow."""
    if not hasattr(torch._dynamo.guards, "profile_guard_manager"):
        return contextlib.nullcontext()
    return mock.patch.object(torch._dynamo.guards, "profile_guard_manager", return_value=0.0)


def prepared(backend: Backend, case: Case) -> Callable[[Function], Function]:
    """`torch.compile` as the case asks for it."""
    keywords: dict[str, Any] = {"backend": backend, "dynamic": case.dynamic}
    if case.options:
        keywords["options"] = dict(case.options)
    return lambda function: torch.compile(function, **keywords)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Random programs make torch log much, its trace even where logging is disabled; pytest would keep all of it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with mock.patch.object(logging.getLogger("torch.__trace"), "isEnabledFor", return_value=False):
            yield
    finally:
        logging.disable(before)


class TookTooLong(Exception):
    """A run that did not end."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises in what runs longer; signals reach the main thread alone, elsewhere there is no limit.

    On a busy machine a run that mostly waited for a processor gets the same time again, but only a few times: one that
    waits for a lock looks the same.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    began = time.process_time()
    again = itertools.chain([seconds] * _MORE, itertools.repeat(0.0))

    def interrupt(number: int, frame: object) -> None:
        more = next(again) if time.process_time() - began < seconds / 2 else 0.0
        if more:
            signal.setitimer(signal.ITIMER_REAL, more)
            return
        raise TookTooLong(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_compiled(case: Case, backend: Backend, seconds: float = 0.0) -> Trace:
    """The case with a compiled function, in a Dynamo that knows nothing of earlier ones."""
    torch._dynamo.reset()
    try:
        with _guards_not_measured(), _unlogged(), _limited(seconds):
            return run_case(case, prepared(backend, case))
    finally:
        torch._dynamo.reset()


@dataclass(frozen=True)
class Judge:
    """Runs cases in eager and compiled by a backend."""

    backend: Backend
    options: Mapping[str, Any] = field(default_factory=dict)
    """What every case is compiled with, beside the options that it has drawn."""
    ignored: Collection[str] = ()
    """Kinds of differences that do not count."""
    references: tuple[Backend, ...] = ("aot_eager",)
    """Backends of torch: where one goes wrong alike, the fault is not the backend's."""
    seconds: float = 180.0
    """A run that takes longer counts as one that raises; 0 for no limit."""

    def complete(self, case: Case) -> Case:
        """The case with all options that it is compiled with."""
        return replace(case, options={**self.options, **case.options})

    def __call__(self, case: Case, asks_torch: bool = True) -> Verdict:
        """Where compiled differs from eager, the references are run as well, unless torch is not asked."""
        expected = run_case(case)
        if expected.raised is not None:
            return Verdict("dropped")
        trace = run_compiled(self.complete(case), self.backend, self.seconds)
        found = differences(expected, trace, case.is_exact, self.ignored)
        if not found:
            return Verdict("same")
        if (reason := refusal(found[0])) is not None:
            return Verdict("refused", tuple(found), reason)
        if not asks_torch:
            return Verdict("finding", tuple(found))
        own = tuple(found)
        for reference in self.references:
            alone = run_compiled(replace(case, options={}), reference)
            torchs = differences(expected, alone, case.is_exact, self.ignored)
            own = tuple(d for d in own if not _shared(d, torchs))
        return Verdict("finding", own) if own else Verdict("torch", tuple(found))


def _shared(difference: Difference, torchs: list[Difference]) -> bool:
    """Whether torch alone differs there as well, or has gone wrong before in a way that later values show."""
    if any(t.step < difference.step for t in torchs if t.kind not in UNSEEN):
        return True
    if any(t.kind == "raises" and _excuses(t, difference) for t in torchs):
        return True
    return any(
        (t.step, t.path, t.kind) == (difference.step, difference.path, difference.kind) for t in torchs
    )


def _excuses(error: Difference, difference: Difference) -> bool:
    """Whether an error of torch's goes before a difference; in the same step it excuses no wrong value."""
    return error.step < difference.step or (error.step == difference.step and difference.kind == "raises")


def refusal(difference: Difference) -> str | None:
    """The reason of an error that says what, where and what to do; None for any other difference."""
    text = difference.detail
    if difference.kind != "raises" or not _ADVICE.search(text):
        return None
    if not _PLACE.search(text):
        return None
    return reason_of(text)


def reason_of(text: str) -> str:
    """What an error says before its first place, without numbers and names of values, to count it under."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("backend=")]
    places = [at for at, line in enumerate(lines) if re.match(r"(at +|line +)?\S+:\d+\b", line)]
    line = "; ".join(lines[: places[0]] if places else lines[:1])
    return re.sub(r"\b\d+\b", "N", re.sub(r"(?<=[a-z])_\d+\b", "", line))[:240]
