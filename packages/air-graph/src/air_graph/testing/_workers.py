"""A campaign in processes of its own: several at once, and a crash ends a process and not the campaign."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from air_graph.testing._calls import draw_case
from air_graph.testing._campaign import Finding, Report, campaign
from air_graph.testing._case import Case, Given
from air_graph.testing._compare import Difference
from air_graph.testing._judge import Judge
from air_graph.testing._programs import FAMILIES


@dataclass(frozen=True)
class Order:
    """What every process is told."""

    judge: Judge
    options: Sequence[Mapping[str, Any]] = ({},)
    device: str = "cpu"
    families: Sequence[str] = tuple(FAMILIES)
    shrink_seconds: float = 20.0
    per_process: int = 500
    """Programs after which a process is replaced."""


@dataclass
class _Worker:
    """A process, the seeds it still has, and what it has told so far."""

    process: Any
    pipe: Connection
    seeds: list[int]
    report: Report = field(default_factory=Report)


def in_processes(order: Order, seeds: Sequence[int], jobs: int = 1) -> Report:
    """The cases of all seeds, in as many processes at once as `jobs` says."""
    context = multiprocessing.get_context("spawn")
    waiting = [list(seeds[at : at + order.per_process]) for at in range(0, len(seeds), order.per_process)]
    whole = Report()
    running: list[Any] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_started(context, order, waiting.pop(0)))
        for pipe in wait([worker.pipe for worker in running]):
            worker = next(w for w in running if w.pipe is pipe)
            if _heard(worker, whole):
                continue
            running.remove(worker)
            worker.process.join()
            if worker.seeds:
                whole.merge(_crashed(order, worker.seeds[0], worker.process.exitcode))
                waiting.insert(0, worker.seeds[1:])
    return whole


def _started(context: Any, order: Order, seeds: list[int]) -> _Worker:
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(order, seeds, theirs))
    process.start()
    theirs.close()
    return _Worker(process, pipe, list(seeds))


def _heard(worker: _Worker, whole: Report) -> bool:
    """Takes one report of a process; False where it has ended."""
    try:
        report: Report = worker.pipe.recv()
    except EOFError:
        return False
    worker.seeds.pop(0)
    whole.merge(report)
    for finding in report.findings:
        sys.stderr.write(f"--- {finding.group}\n{finding}\n\n")
    return True


def _crashed(order: Order, seed: int, code: int | None) -> Report:
    difference = Difference("raises", "crash", 0, "the whole script", f"the process ended with code {code}")
    case = draw_case(seed, order.options, order.device, order.families) or Case((), (), Given(), ())
    return Report(programs=1, findings=[Finding(seed, order.judge.complete(case), difference)])


def _work(order: Order, seeds: Sequence[int], pipe: Connection) -> None:
    """One report for each seed."""
    for seed in seeds:
        report = campaign(
            order.judge, [seed], order.options, order.device, order.families, order.shrink_seconds
        )
        try:
            pipe.send(report)
        except BrokenPipeError:  # the campaign has ended
            return
