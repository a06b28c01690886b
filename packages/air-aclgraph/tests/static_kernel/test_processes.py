"""Several processes of one node: one compiles, nobody reads half a library, and a failure reaches everyone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from air_aclgraph.static_kernel import StaticKernels
from air_aclgraph.static_kernel._libraries import library_for
from air_aclgraph.static_kernel._turn import rank
from static_kernel.stand_in import StandIn

Make = Callable[..., StaticKernels]
FORK = multiprocessing.get_context("fork")
LIMIT_S = 60


class Ranks:
    """Processes that each run one key; what they report comes back by rank."""

    def __init__(self, cann: StandIn) -> None:
        self.cann = cann
        self.answers: Any = FORK.Queue()
        self.processes: list[BaseProcess] = []

    def start(self, work: Callable[[int], StaticKernels], count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            process = FORK.Process(target=self._rank, args=(work, number, first + count))
            process.start()
            self.processes.append(process)

    def _rank(self, work: Callable[[int], StaticKernels], number: int, count: int) -> None:
        os.environ.update(RANK=str(number), LOCAL_WORLD_SIZE=str(count), MASTER_PORT="1")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernels = work(number)
        report = kernels.reports[-1]
        answer = (
            number,
            report.compiled,
            report.installed,
            self.cann.selections,
            [str(w.message) for w in caught],
            time.monotonic(),
        )
        self.answers.put(answer)
        library_for(self.cann, kernels.options).leave()

    def results(self, count: int) -> list[tuple[int, int, int, list[int], list[str], float]]:
        found = [self.answers.get(timeout=LIMIT_S) for _ in range(count)]
        for process in self.processes:
            process.join(LIMIT_S)
        return sorted(found)


def one_key(
    make: Make, cann: StandIn, operators: Sequence[str], **options: object
) -> Callable[[int], StaticKernels]:
    def work(_: int) -> StaticKernels:
        kernels = make(**options)
        assert kernels.around((), cann.model(*operators)) == tuple(operators)
        return kernels

    return work


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_S11_one_rank_compiles_and_installs_and_all_see_whole_kernels(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("STAND_IN_INSTALL_SLEEP", "0.5")
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add", "Mul", "Sub"]), count)
    results = ranks.results(count)
    assert sorted(compiled for _, compiled, *_ in results) == [0] * (count - 1) + [3]
    assert sum(installed for _, _, installed, *_ in results) >= 1
    assert [selections for _, _, _, selections, *_ in results] == [[3]] * count
    assert [said for *_, said, _ in results] == [[]] * count
    assert cann.compilations == 1
    assert cann.installed_packages() == [], "the last user has uninstalled"


def test_S11_ranks_with_different_operators_see_only_whole_packages(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_INSTALL_SLEEP", "0.3")
    work: dict[int, Callable[[int], StaticKernels]] = {
        number: one_key(make, cann, [f"Add_{number}", "Bias", "Relu"]) for number in range(4)
    }
    ranks = Ranks(cann)
    ranks.start(lambda number: work[number](number), 4)
    results = ranks.results(4)
    assert sorted(compiled for _, compiled, *_ in results) == [1, 1, 1, 3]
    assert [said for *_, said, _ in results] == [[]] * 4


def test_S11_a_rank_that_compiles_alone_waits_for_nobody(make: Make, cann: StandIn) -> None:
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add"]), 1, first=3)
    ((number, compiled, _, selections, said, _),) = ranks.results(1)
    assert (number, compiled, selections, said) == (3, 1, [1], [])


def test_S11_a_failure_of_the_compiling_rank_reaches_all_at_once(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_SLEEP", "1")
    monkeypatch.setenv("STAND_IN_EXIT", "7")
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add", "Mul"]), 4)
    results = ranks.results(4)
    assert cann.compilations == 1, "nobody fails a second time"
    times = [when for *_, when in results]
    assert max(times) - min(times) < 10
    texts = [said for *_, (said,), _ in results]
    assert all("exit code 7" in " ".join(text.split()) and "op_compiler.log" in text for text in texts)
    assert sum("which compiled for this node" in text for text in texts) == 3


def test_S11_the_death_of_the_compiling_rank_is_reported_by_all_within_ten_seconds(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_SLEEP", "20")
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add"]), 1)
    wait_until(lambda: cann.compilations == 1)
    ranks.start(one_key(make, cann, ["Add"]), 3, first=1)
    time.sleep(1)
    leader = ranks.processes[0].pid
    assert leader is not None
    os.kill(leader, signal.SIGKILL)
    died = time.monotonic()
    results = ranks.results(3)
    assert cann.compilations == 1
    for *_, (text,), when in results:
        assert f"rank 0 (process {leader})" in text
        assert "has ended before it was done" in text
        assert when - died < 10


def test_two_jobs_that_share_a_cache_compile_once_and_keep_what_the_other_uses(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_SLEEP", "0.5")
    mine = make()
    other = FORK.Process(target=lambda: mine.around((), cann.model("Add", "Mul")))
    other.start()
    again = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.around((), cann.model("Add", "Mul"))
    other.join(LIMIT_S)
    assert other.exitcode == 0
    assert cann.compilations == 1
    again.around((1,), cann.model("Sub"))
    assert cann.selections[-1] == 3
    assert len(cann.installed_packages()) == 2


def test_the_last_user_of_a_package_uninstalls_it_and_no_signal_handler_is_set(
    make: Make, cann: StandIn
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    kernels = make()
    kernels.around((), cann.model("Add"))
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add"]), 1)
    ((_, _, installed, *_),) = ranks.results(1)
    assert installed == 0, "it was there"
    assert len(cann.installed_packages()) == 1, "the other process has left, this one uses it"
    library_for(cann, kernels.options).leave()
    assert cann.installed_packages() == []
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_S11_a_wait_has_a_deadline(make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("air_aclgraph.static_kernel._turn.MARGIN_S", 0.5)
    monkeypatch.setenv("STAND_IN_SLEEP", "6")
    ranks = Ranks(cann)
    ranks.start(one_key(make, cann, ["Add"]), 1)
    wait_until(lambda: cann.compilations == 1)
    ranks.start(one_key(make, cann, ["Add"], time_limit_s=0.5), 1, first=1)
    first, second = ranks.results(2)
    assert first[4] == []
    assert "waited 1 s for rank 0" in second[4][0]


def test_the_rank_is_the_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")
    assert rank() == 5
    monkeypatch.delenv("RANK")
    assert rank() is None
