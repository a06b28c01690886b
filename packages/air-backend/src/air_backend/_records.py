"""Remembers what was compiled, as long as the result is in use: for explain, statistics and reset.

A record holds its executor weakly, so that dropping a compiled model frees its graphs and pools although the
record was kept here. A reset of Dynamo closes what Dynamo compiled; what a program compiled by itself
(`compile_fx`) is the program's.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from torch._guards import CompileContext

from air_backend._record import CompiledGraph
from air_graph import forks
from air_graph.executors import Executor

_lock: Final = forks.new_lock()
_kept: Final[list[tuple[CompiledGraph, weakref.ref[Any]]]] = []


def keep(record: CompiledGraph, run: Executor) -> None:
    """Remembers a record until its executor is gone."""
    record.is_dynamos = CompileContext.current_compile_id() is not None
    with _lock:
        _kept[:] = [(old, ref) for old, ref in _kept if ref() is not None]
        _kept.append((record, weakref.ref(run)))


def alive() -> list[tuple[CompiledGraph, Executor]]:
    """The records whose executor is in use, oldest first, each with it."""
    with _lock:
        pairs = [(record, ref()) for record, ref in _kept]
    return [(record, run) for record, run in pairs if run is not None]


def close_all() -> None:
    """Closes every executor in use that Dynamo had compiled, and forgets its record."""
    for record, run in alive():
        if record.is_dynamos:
            record.closed = True
            run.close()
    with _lock:
        _kept[:] = [(record, ref) for record, ref in _kept if not record.is_dynamos]
