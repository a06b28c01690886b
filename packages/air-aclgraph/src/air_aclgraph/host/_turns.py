"""The lock of the host runtime: one recording or replay at a time, and none inside another.

A replay on the host runs kernels, and a kernel of the user's may be Python that calls a compiled function again.  All
recordings share memory, so that call must not replay: it finds the mark that is up and runs without a capture.  The
lock is let go of while such a kernel runs, since what it waits for may be a thread that calls a compiled function;
that thread finds the same mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from torch._ops import OpOverload

from air_graph.forks import new_lock

#: Namespaces whose kernels call nothing of the user's and wait for nobody.
_CLOSED: Final = ("aten", "prim", "prims")


class Turns:
    """The lock of a runtime and its mark, `taken[0]`."""

    def __init__(self) -> None:
        self.taken = taken = [False]
        self.lock = new_lock(lambda: taken.__setitem__(0, False))

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Inside, every other call of a captured graph runs without its capture."""
        before = self.taken[0]
        self.taken[0] = True
        try:
            yield
        finally:
            self.taken[0] = before

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, other threads may have the lock."""
        if not self.lock._is_owned():
            yield
            return
        state = self.lock._release_save()
        try:
            yield
        finally:
            self.lock._acquire_restore(state)

    def opened(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel that may call anything."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with self.open():
                return kernel(*args, **kwargs)

        return run


def may_call_back(operator: object) -> bool:
    """Whether a kernel may be code of the user's, or wait for another thread."""
    if isinstance(operator, str):  # a generated kernel
        return False
    return not isinstance(operator, OpOverload) or operator.namespace not in _CLOSED
