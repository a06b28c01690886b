"""Compiles a graph in the background while the program goes on: converts another graph, or makes a call.

    main thread      convert a ─► convert b ─► call a .. waits for a ─► call b
    background             compile a ─────► compile b ─────►

An engine says how many of its compilations may run at once. The error of a compilation is raised in the first call of
its graph. At the end of the process, compilations that have not started are dropped and those that run are waited for,
since engines cannot be interrupted: what they write for other processes is complete, or not there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import torch

from air_geir.engines._protocol import EngineOptions
from air_geir.errors import EngineError
from air_geir.ir import Graph, TensorValue
from air_graph.forks import new_lock
from air_graph.progress import PAUSE_S, progress_on_terminal, showing

log = logging.getLogger(__name__)

CompileLock = AbstractContextManager[Any]
"""Held while a graph is compiled: a lock, or a semaphore."""

ONE_AT_A_TIME: Final = new_lock()
"""For the session of the Graph Engine: its documents do not promise that it can compile two graphs at once."""

_started: Final[weakref.WeakSet[Future[None]]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_started.clear)  # the threads stay with the parent


class BackgroundCompilation:
    """A compilation that runs, or waits for its turn."""

    def __init__(self, work: Callable[[], None], lock: CompileLock, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._future: Future[None] = Future()
        _started.add(self._future)
        thread = threading.Thread(
            target=_run, args=(self._future, work, lock, name, _device()), name=f"compile {name}", daemon=True
        )
        thread.start()

    def wait(self) -> bool:
        """Waits, and says whether it was compiled; raises what the compilation raised. A terminal shows the time."""
        self._refuse_fork()
        started = time.monotonic()
        with showing(progress_on_terminal(1), self._name) as screen:
            while True:
                try:
                    self._future.result(PAUSE_S if screen is not None else None)
                except CancelledError:
                    return False
                except NotYet:
                    if not self._future.done() and screen is not None:
                        screen.draw(
                            f"{self._name}: the engine compiles, {time.monotonic() - started:.0f} s "
                            f"({_unfinished()} to do)"
                        )
                        continue
                    self._future.result()
                return True

    def drop(self) -> None:
        """Cancels it if it has not started, else waits for its end; a fork has nothing to wait for."""
        if os.getpid() == self._pid and not self._future.cancel():
            wait([self._future])

    def _refuse_fork(self) -> None:
        if (here := os.getpid()) != self._pid:
            raise EngineError(
                f"{self._name} is compiled in process {self._pid}; this is its fork {here}",
                advice="start worker processes with the spawn method: a device context does not survive a fork",
            )


def may_start_early(graph: Graph, options: EngineOptions) -> bool:
    """Whether a graph can be compiled before its inputs are known, on a thread of its own.

    A tuner looks at the inputs; communicators are made where all ranks meet, in the first call; and what lies on a
    device is read in the order of the program's own stream.
    """
    return options.ahead and "aoe_mode" not in options.graph and not _needs_the_caller(graph)


def _needs_the_caller(graph: Graph) -> bool:
    return any(
        "group" in node.attrs
        or any(_is_on_device(attr.value) for attr in node.attrs.values())
        or any(map(_needs_the_caller, node.subgraphs.values()))
        for node in graph
    )


def _is_on_device(value: object) -> bool:
    data = value.data if isinstance(value, TensorValue) else None
    return isinstance(data, torch.Tensor) and data.device.type != "cpu"


def _run(
    future: Future[None], work: Callable[[], None], lock: CompileLock, name: str, device: int | None
) -> None:
    with lock:
        if not future.set_running_or_notify_cancel():
            return
        started = time.monotonic()
        try:
            if device is not None:
                torch.get_device_module("npu").set_device(device)
            work()
        except BaseException as error:
            future.set_exception(error)
        else:
            log.info("%s was compiled in the background in %.2f s", name, time.monotonic() - started)
            future.set_result(None)


def _device() -> int | None:
    """The NPU that the calling thread works on; other threads begin on the first one."""
    npu = getattr(torch, "npu", None)
    return None if npu is None or not npu.is_available() else int(npu.current_device())


def _unfinished() -> int:
    return sum(not future.done() for future in _started)


def _stop() -> None:
    """Before an engine is shut down: nothing more is started, and what runs is waited for."""
    wait([future for future in list(_started) if not future.cancel()])


def start(work: Callable[[], None], lock: CompileLock, name: str) -> BackgroundCompilation:
    """Starts a compilation in the background."""
    atexit.unregister(_stop)
    atexit.register(_stop)  # after the engine registered its own end, and so called before it
    return BackgroundCompilation(work, lock, name)


class CompilesEarly(Protocol):
    """A graph that can be compiled before its inputs are known."""

    def for_dense_inputs(self) -> None: ...


def start_early(
    compiled: CompilesEarly, graph: Graph, options: EngineOptions, lock: CompileLock
) -> BackgroundCompilation | None:
    """The started compilation of a graph; None where it has to wait for the first call."""
    return start(compiled.for_dense_inputs, lock, options.name) if may_start_early(graph, options) else None
