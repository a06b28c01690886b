"""A compilation beside the program: the first call waits for it, raises what it raised, and nothing is left behind."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import threading
import time
import traceback

import pytest

from air_geir.engines import _ahead
from air_geir.engines._ahead import start
from air_graph import progress
from air_graph.progress import Progress

forking = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
LEAVING = """
import threading, time
from air_geir.engines._ahead import start
lane = threading.Lock()
def work(name):
    time.sleep(0.3)
    print(name, "is whole", flush=True)
first, second = (start(lambda name=name: work(name), lane, name) for name in ("first", "second"))
time.sleep(0.1)
print("leaving", flush=True)
"""

FORKED = """
import os, time
from air_geir.engines._ahead import ONE_AT_A_TIME, start
ahead = start(lambda: time.sleep(1), ONE_AT_A_TIME, "graph")
time.sleep(0.1)
child = os.fork()
if child == 0:
    with ONE_AT_A_TIME:
        os._exit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), ahead.wait())
"""

ASKED = """
import os, time, threading
from air_geir.engines._ahead import start
from air_geir.errors import EngineError
ahead = start(lambda: time.sleep(1), threading.Lock(), "graph_0")
time.sleep(0.1)
child = os.fork()
if child == 0:
    ahead.drop()
    try:
        ahead.wait()
    except EngineError as error:
        os._exit(7 if "graph_0 is compiled in process" in str(error) and "spawn" in str(error) else 8)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), ahead.wait())
"""

INTERRUPTED = """
import os, signal, threading, time
from air_geir.engines._ahead import start
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
def work():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.4)
    print("the compilation is whole", flush=True)
ahead = start(work, threading.Lock(), "graph")
try:
    ahead.wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("waited again:", ahead.wait(), flush=True)
"""


def printed_by(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def printed_by_a_fork(program: str) -> list[str]:
    """The same without the seconds in which torch is imported, for what is not about the end of a process."""
    printed, printing = os.pipe()
    child = os.fork()
    if child == 0:
        gc.freeze()  # what other tests left may wait for threads that a fork does not have
        code = 1
        try:
            sys.stdout = os.fdopen(printing, "w")
            exec(program, {})
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(printing)
    with os.fdopen(printed) as text:
        lines = text.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return lines


def test_the_caller_goes_on_while_a_graph_is_compiled() -> None:
    may_end, done = threading.Event(), []
    ahead = start(lambda: done.append(may_end.wait(10)), threading.Lock(), "graph")
    assert not done
    may_end.set()
    assert ahead.wait()
    assert done == [True]


def test_what_a_compilation_raises_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ValueError("no kernel for model.py:7")

    ahead = start(work, threading.Lock(), "graph")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"model\.py:7"):
            ahead.wait()


@pytest.mark.parametrize(("lane", "at_once"), [(threading.Lock(), 1), (threading.BoundedSemaphore(3), 3)])
def test_no_more_run_at_once_than_the_engine_says(lane: _ahead.CompileLock, at_once: int) -> None:
    running, most, own = 0, 0, threading.Lock()
    together = threading.Barrier(at_once, timeout=10)

    def work() -> None:
        nonlocal running, most
        with own:
            running += 1
            most = max(most, running)
        together.wait()
        with own:
            running -= 1

    for ahead in [start(work, lane, str(number)) for number in range(6)]:
        assert ahead.wait()
    assert most == at_once


def test_what_nobody_wants_is_not_begun_or_waited_for() -> None:
    may_end, done = threading.Event(), []
    lane = threading.Lock()
    first = start(lambda: done.append(may_end.wait(10)), lane, "first")
    while not lane.locked():
        time.sleep(0.001)
    second = start(lambda: done.append(False), lane, "second")
    second.drop()
    threading.Timer(0.05, may_end.set).start()
    first.drop()
    assert done == [True]
    assert not second.wait()


def test_at_the_end_of_the_process_what_runs_is_waited_for_and_the_rest_dropped() -> None:
    assert printed_by(LEAVING) == ["leaving", "first is whole"]


@forking
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    assert printed_by_a_fork(FORKED) == ["7 True"]


@forking
def test_a_forked_child_is_told_that_the_compilation_is_its_parents() -> None:
    assert printed_by_a_fork(ASKED) == ["7 True"]


@forking
def test_an_interrupt_ends_the_waiting_and_not_the_compilation() -> None:
    assert printed_by_a_fork(INTERRUPTED) == ["interrupted", "the compilation is whole", "waited again: True"]


def test_a_terminal_shows_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(Progress.__init__, "__defaults__", (0.0,))
    assert start(lambda: time.sleep(3 * progress.PAUSE_S), threading.Lock(), "graph_3").wait()
    assert "graph_3: the engine compiles, 0 s (1 to do)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
