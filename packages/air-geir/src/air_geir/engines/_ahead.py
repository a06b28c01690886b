"""The compilation of one graph beside whatever the program does next: the conversion of another, or a call.

    main thread      convert a ─► convert b ─► call a .. waits for a ─► call b
    beside it              compile a ─────► compile b ─────►

An engine says how many of its compilations may run at once. What a compilation raises, it raises in the first call of
its graph. At the end of the process those that have not begun are dropped, and the one that runs is waited for, since
engines cannot be interrupted: what it writes for other processes is whole, or not there.
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
from air_geir.ir import Graph, TensorValue
from air_graph.forks import new_lock
from air_graph.progress import PAUSE_S, progress_on_terminal, showing

log = logging.getLogger(__name__)

Lane = AbstractContextManager[Any]
"""Held while a graph is compiled: a lock, or a semaphore."""

ONE_AT_A_TIME: Final = new_lock()
"""Compilations of the session of the Graph Engine: none of its documents promises that it takes two at once."""

_begun: Final[weakref.WeakSet[Future[None]]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begun.clear)  # the threads stay with the parent


class Ahead:
    """A compilation that has been begun, or waits for its turn."""

    def __init__(self, work: Callable[[], None], lane: Lane, name: str) -> None:
        self._name = name
        self._future: Future[None] = Future()
        _begun.add(self._future)
        thread = threading.Thread(
            target=_run, args=(self._future, work, lane, name, _device()), name=f"compile {name}", daemon=True
        )
        thread.start()

    def wait(self) -> bool:
        """Whether it was compiled; raises what the compilation raised. A terminal shows how long it takes."""
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
        """Nobody wants it: it is not begun, or waited for."""
        if not self._future.cancel():
            wait([self._future])


def may_go_ahead(graph: Graph, options: EngineOptions) -> bool:
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


def _run(future: Future[None], work: Callable[[], None], lane: Lane, name: str, device: int | None) -> None:
    with lane:
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
            log.info("%s was compiled beside the program in %.2f s", name, time.monotonic() - started)
            future.set_result(None)


def _device() -> int | None:
    """The NPU that the calling thread works on; other threads begin on the first one."""
    npu = getattr(torch, "npu", None)
    return None if npu is None or not npu.is_available() else int(npu.current_device())


def _unfinished() -> int:
    return sum(not future.done() for future in _begun)


def _stop() -> None:
    """Before an engine is shut down: nothing begins any more, and what runs ends."""
    wait([future for future in list(_begun) if not future.cancel()])


def begun(work: Callable[[], None], lane: Lane, name: str) -> Ahead:
    """Begins a compilation beside the caller."""
    atexit.unregister(_stop)
    atexit.register(_stop)  # after the engine registered its own end, and so called before it
    return Ahead(work, lane, name)


class AnyInputs(Protocol):
    """A graph whose compilation may begin before its inputs are known."""

    def for_dense_inputs(self) -> None: ...


def begun_for(compiled: AnyInputs, graph: Graph, options: EngineOptions, lane: Lane) -> Ahead | None:
    """The compilation of a graph, begun; None where it has to wait for the first call."""
    return begun(compiled.for_dense_inputs, lane, options.name) if may_go_ahead(graph, options) else None
