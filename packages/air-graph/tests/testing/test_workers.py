"""Campaigns in processes: all seeds are run, and a process that dies is a finding."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable

import pytest

import wrong_backends
from air_graph.testing import Judge, Order, draw_case, in_processes
from air_graph.testing.__main__ import main


def seed_of(fits: Callable[[str], bool]) -> int:
    """The first seed whose program is as wanted and that torch alone runs."""
    cases = ((seed, draw_case(seed)) for seed in itertools.count())
    return next(
        s for s, case in cases if case and fits(case.source()) and Judge("eager")(case).kind == "same"
    )


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_that_dies_is_a_finding_and_the_others_seeds_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In forked processes, which need not import torch: that they can be spawned, the command shows below."""
    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: forking)
    deadly = seed_of(lambda text: ".transpose(0" in text)
    harmless = seed_of(lambda text: "transpose" not in text)
    order = Order(Judge(wrong_backends.ends_the_process, references=("eager",)))
    report = in_processes(order, [harmless, deadly, harmless])
    assert report.programs == 3
    assert [(f.seed, f.difference.path) for f in report.findings] == [(deadly, "crash")]
    assert report.same == 2


def test_the_command_shows_programs_without_running_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", "--programs", "2", "--seed", "5"]) == 0
    shown = capsys.readouterr().out
    assert "# 5" in shown
    assert "def f(" in shown


def test_the_command_runs_programs_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--backend", "aot_eager", "--programs", "3"]) == 0
    assert "3 programs in" in capsys.readouterr().out


def test_the_command_gives_numbers_and_flags_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def judge(backend: str, options: dict[str, object], ignored: object) -> Judge:
        given.update(options)
        return Judge("aot_eager")

    monkeypatch.setattr("air_graph.testing.__main__.Judge", judge)
    options = [("limit", "1"), ("flag", "True"), ("outputs", "clone"), ("place", "a.b/c d")]
    arguments = [word for name, value in options for word in ("--option", name, value)]
    assert main(["--programs", "1", *arguments]) == 0
    assert given == {"limit": 1, "flag": True, "outputs": "clone", "place": "a.b/c d"}
