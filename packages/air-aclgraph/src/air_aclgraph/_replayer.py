"""The captured keys of a graph, and the way of a call that needs nothing but a replay.

Its fields are slots that lie side by side, and it touches few objects: when a call comes, Dynamo's guards have
filled the processor's caches with other things, and every object is fetched from far away.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.utils import counters
from torch.utils._pytree import TreeSpec, tree_unflatten

from air_aclgraph import native
from air_aclgraph._captured import Captured, Run
from air_aclgraph._key import Key, KeyOf


class Replayer(ABC):
    """The captured keys of a graph, the least recently used first, and the call that replays one of them."""

    __slots__ = ("_acquire", "_always_off", "_captured", "_key_of", "_only", "_release", "_structure")

    def __init__(
        self, lock: Any, key_of: KeyOf | None, structure: TreeSpec | None, *, always_off: bool
    ) -> None:
        self._acquire, self._release = lock.acquire, lock.release
        self._captured: OrderedDict[Key, Captured] = OrderedDict()
        self._key_of = key_of
        self._structure = structure  # of the outputs; None for a flat tuple
        self._always_off = always_off
        self._only: list[Run | None] = [None]  # of a graph that has one key

    def boxed(self, args: Sequence[Any]) -> Any:
        """Runs the graph on its inputs, given in one list or tuple: the calling convention of AOTAutograd."""
        try:
            self._acquire()  # an interrupt that comes right after it finds the way to `_release`
            key_of = self._key_of
            if key_of is None:
                key: Key = ()
                run = self._only[0]
                outputs = None if run is None else run(args)
            else:
                key = key_of(args)
                captured = None if self._always_off else self._captured.get(key)
                if captured is None:
                    outputs = None
                else:
                    self._captured.move_to_end(key)
                    outputs = captured.run(args)
            if outputs is None:
                outputs = self._off_path(key, list(args))
            counters["air"]["calls"] += 1
            return outputs if self._structure is None else tree_unflatten(list(outputs), self._structure)
        finally:
            try:  # noqa: SIM105  # on the path of every call: no context manager
                self._release()
            except RuntimeError:  # the interrupt ended the wait for the lock
                pass

    def direct(self) -> Callable[[Sequence[Any]], Any]:
        """`boxed`, for a caller who keeps this object as long as it: a builtin where the graph has one key."""
        return self._builtin(each_by_itself=False) or self.boxed

    def spread(self) -> Callable[..., Any]:
        """The same for arguments that are not in one sequence."""
        return self._builtin(each_by_itself=True) or (lambda *args: self.boxed(args))

    def _builtin(self, *, each_by_itself: bool) -> Callable[..., Any] | None:
        if self._key_of is not None or self._structure is not None:
            return None
        make = native.builtin("air_keyless", *[ctypes.py_object] * 7, ctypes.c_int)
        if make is None:
            return None
        objects = self._acquire, self._release, self._only, self._off_path_of_one, counters, "air", "calls"
        run: Callable[..., Any] = make(*objects, each_by_itself)
        return run

    def _off_path_of_one(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return self._off_path((), list(args))

    @abstractmethod
    def _off_path(self, key: Key, args: list[Any]) -> tuple[Any, ...]:
        """Handles a call that cannot simply be replayed."""

    def key_of(self, args: Sequence[Any]) -> Key:
        """The key that a call with these inputs has."""
        return () if self._key_of is None else self._key_of(args)

    def _keep(self, captured: Captured) -> None:
        """Replays this capture in calls of its key."""
        self._captured[captured.key] = captured
        if self._key_of is None and not self._always_off:
            self._only[0] = captured.run

    def _forget(self, key: Key) -> Captured | None:
        """Replays the capture of a key no more, and gives it back."""
        self._only[0] = None
        return self._captured.pop(key, None)
