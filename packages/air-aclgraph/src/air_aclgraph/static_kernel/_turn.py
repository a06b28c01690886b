"""Lets one process of a node compile at a time, and tells the others the outcome.

No collective is involved, so any number of ranks may come, together or alone.  The first takes the turn; those
that come meanwhile wait, watching the attempt in progress.  When it succeeds they go on and find everything in
the cache.  When it fails, or its process dies, all of them give up at once with the same reason instead of
failing one after the other.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from air_aclgraph.static_kernel._locks import Lock, read_json, write_json
from air_aclgraph.static_kernel._select import Operator
from air_aclgraph.static_kernel._tree import is_alive
from air_aclgraph.static_kernel.errors import StageFailed
from air_config import variables

KEPT: Final = 32
MARGIN_S: Final = 120.0
RECENT_S: Final = 60.0
"""A rank that comes this late still takes a failure of its job as its own, instead of failing once more."""
_known: Final[set[str]] = set()


@dataclass
class Turn:
    """The turn of this process: what it is about to compile, and how that ended."""

    file: Path
    job: str
    attempts: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, operators: Sequence[Operator]) -> None:
        """Writes down an attempt, so that others know whom they wait for."""
        record = {
            "id": uuid.uuid4().hex,
            "pid": os.getpid(),
            "rank": rank(),
            "job": self.job,
            "ended": None,
            "operators": [operator.digest for operator in operators],
            "outcome": None,
            "failure": None,
        }
        self.attempts = [*self.attempts, record][-KEPT:]
        write_json(self.file, self.attempts)

    def end(self, failure: StageFailed | None) -> None:
        """Writes down how the attempt ended, if one was begun."""
        if self.attempts and self.attempts[-1]["outcome"] is None:
            self.attempts[-1]["outcome"] = "done" if failure is None else "failed"
            self.attempts[-1]["ended"] = time.time()
            self.attempts[-1]["failure"] = None if failure is None else failure.to_dict()
            write_json(self.file, self.attempts)


@contextmanager
def turn(state: Path, operators: Sequence[Operator], limit_s: float | None, job: str) -> Iterator[Turn]:
    """Waits for the turn, holds it, and leaves word of how it ended.

    `limit_s` bounds one attempt of another process; each new attempt starts the clock again.  `job` is the name
    that the ranks of one job share.
    """
    file = state / "attempts.json"
    watch = _Watch(file, {operator.digest for operator in operators}, limit_s, job)
    lock = Lock(state / "turn.lock")
    lock.acquire(None, while_waiting=watch)
    with lock.held():
        mine = Turn(file, job, _ended(read_json(file) or []))
        watch.look(mine.attempts)
        try:
            yield mine
        except StageFailed as failure:
            mine.end(failure)
            raise
        mine.end(None)


def _ended(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attempts of the past; one that was never ended has died, as its holder has lost the turn."""
    return [{**a, "outcome": "died"} if a["outcome"] is None else a for a in attempts]


class _Watch:
    """Follows the attempts that are made while this process waits."""

    def __init__(self, file: Path, operators: set[str], limit_s: float | None, job: str) -> None:
        self._file = file
        self._operators = operators
        self._limit_s = limit_s
        before = read_json(file) or []
        self._old = {a["id"] for a in before if _is_over(a) and not _is_news(a, job)}
        self._current: str | None = None
        self._since = time.monotonic()

    def __call__(self) -> None:
        attempts = read_json(self._file) or []
        self.look(attempts)
        running = next((a for a in reversed(attempts) if a["outcome"] is None), None)
        if running is not None and running["id"] != self._current:
            self._current, self._since = running["id"], time.monotonic()
        if running is not None and not is_alive(running["pid"]):
            raise _died(running)
        if self._limit_s is not None and time.monotonic() - self._since > self._limit_s + MARGIN_S:
            raise StageFailed(
                f"waited {self._limit_s + MARGIN_S:g} s for {_name(running)} to compile static kernels",
                advice="see what that process does; air.static_kernel.time_limit_s bounds the wait",
                stage="wait",
            )

    def look(self, attempts: Sequence[dict[str, Any]]) -> None:
        """Raises what a new attempt at one of this process's operators failed by."""
        for attempt in attempts:
            if attempt["id"] in self._old or not self._operators & set(attempt["operators"]):
                continue
            if attempt["outcome"] == "died":
                raise _died(attempt)
            if attempt["outcome"] == "failed":
                _known.add(attempt["id"])
                failure = StageFailed.from_dict(attempt["failure"])
                failure.what = f"{_name(attempt)}, which compiled for this node: {failure.what}"
                raise failure


def _is_over(attempt: dict[str, Any]) -> bool:
    return attempt["outcome"] is not None or not is_alive(attempt["pid"])


def _is_news(attempt: dict[str, Any], job: str) -> bool:
    """Whether another rank of this job has just failed, and this process has not said so yet."""
    return (
        attempt["outcome"] == "failed"
        and attempt["job"] == job
        and attempt["pid"] != os.getpid()
        and attempt["id"] not in _known
        and time.time() - attempt["ended"] < RECENT_S
    )


def _died(attempt: dict[str, Any]) -> StageFailed:
    _known.add(attempt["id"])
    return StageFailed(
        f"{_name(attempt)}, which compiled static kernels for this node, has ended before it was done",
        advice="see why that process ended; the next start compiles what is missing",
        stage="wait",
    )


def _name(attempt: dict[str, Any] | None) -> str:
    if attempt is None:
        return "another process"
    who = f"process {attempt['pid']}"
    return who if attempt["rank"] is None else f"rank {attempt['rank']} ({who})"


def rank() -> int | None:
    """The rank of this process, as its launcher says."""
    given = variables.number("RANK", -1)
    return None if given < 0 else given
