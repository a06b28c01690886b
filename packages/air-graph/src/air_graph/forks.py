"""Locks that a forked child finds open: the thread that held one in the parent does not exist in the child.

What such a lock protects must be whole between any two steps inside it, since a child may begin there: entries that
are put into a table, not halves of one.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Any, Final

__all__ = ["Lock"]

_all: Final[weakref.WeakSet[Lock]] = weakref.WeakSet()


class Lock:
    """A lock that one thread may take several times; a block that was begun before a fork ends in both processes."""

    def __init__(self) -> None:
        self._inner: Any = threading.RLock()
        self._taken: list[Any] = []
        _all.add(self)

    def __enter__(self) -> None:
        inner = self._inner
        inner.acquire()
        self._taken.append(inner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._taken.pop().release()


def _renew() -> None:
    for lock in list(_all):
        lock._inner = threading.RLock()


os.register_at_fork(after_in_child=_renew)
