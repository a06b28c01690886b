"""A child that is forked while another thread holds a lock can take it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from air_graph.forks import new_lock


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Another thread has the lock meanwhile."""
    taken, give_back = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            give_back.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        give_back.set()
        thread.join()


def in_a_child(work: Callable[[], None]) -> int:
    """How a forked child ends that does the work: 0, or the signal of an alarm."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def take(lock: Any) -> Callable[[], None]:
    def work() -> None:
        for _ in range(2):
            with lock, lock:
                pass

    return work


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_takes_a_lock_that_another_thread_held() -> None:
    lock = new_lock()
    with held(lock):
        assert in_a_child(take(lock)) == 0
    plain = threading.RLock()
    with held(plain):
        assert in_a_child(take(plain)) == -signal.SIGALRM, "an ordinary lock stays taken"
    take(lock)()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_block_that_was_begun_before_the_fork_ends_in_both_processes() -> None:
    lock = new_lock()
    with lock:
        assert in_a_child(lambda: lock.__exit__(None, None, None)) == 0
    with held(lock):
        pass


def test_it_keeps_threads_out() -> None:
    lock = new_lock()
    seen: list[int] = []

    def add() -> None:
        for _ in range(1000):
            with lock:
                count = len(seen)
                seen.append(count)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(4000))
