"""Locks that are free in a forked child, whichever thread of the parent held them.

The thread that held a lock does not exist in the child, so nothing would ever release it.  The thread that forks does
exist there: what it holds it goes on holding.  What such a lock protects must be whole between any two steps inside
it, since a child may begin there: entries that are put into a table, not halves of one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["new_lock"]


def _nothing() -> None:
    return None


_locks: Final[weakref.WeakKeyDictionary[Any, Callable[[], object]]] = weakref.WeakKeyDictionary()


def new_lock(freed: Callable[[], object] = _nothing) -> Any:
    """A re-entrant lock; `freed` is called in a child whose parent had it held by another thread."""
    lock = threading.RLock()
    _locks[lock] = freed
    return lock


def _after_fork() -> None:
    for lock, freed in list(_locks.items()):
        if not lock._is_owned():  # as threading.Condition asks it
            lock._at_fork_reinit()  # as threading does with its own
            freed()


os.register_at_fork(after_in_child=_after_fork)
