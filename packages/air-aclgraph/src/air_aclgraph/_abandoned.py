"""Captures whose parameters nobody has any more give back what they hold, after a full garbage collection.

    del model, compiled        nobody has its weights but the captures
    gc.collect()               and now the captures are dropped, with caches and all

A capture keeps the memory that it reads, and Dynamo keeps what it compiled for the code of a model, whether there are
models of that code or not.  A tensor cannot tell that it goes: torch refuses to swap parameters that a weak reference
points to.  So the owners of their storages are counted when Python has collected all generations, as a program has it
do that wants memory back.  Where somebody has that of one (a state dict, a parameter over the same storage), the
capture stays.  Other inputs are not asked: a cache that its caller has let go of is the buffer of the next one
(`_moved`).
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from torch import nn

from air_aclgraph._captured import Captured
from air_aclgraph._moved import are_free
from air_aclgraph._slots import Kind

#: The generation that is collected last and least often.
_FULL: Final = 2


class HasCaptures(Protocol):
    """An executable."""

    def drop_without_parameters(self) -> None:
        """Drops the captures whose parameters nobody has, where no call is under way."""


_watched: Final[weakref.WeakSet[HasCaptures]] = weakref.WeakSet()


def watch(executable: HasCaptures) -> None:
    """Looks at the captures of an executable after each full collection."""
    _watched.add(executable)
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)


def _collected(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL and not sys.is_finalizing():
        for executable in list(_watched):
            executable.drop_without_parameters()


def parameters_of(captured: Captured, args: Sequence[Any]) -> list[int]:
    """The inputs of a capture that are parameters of its caller, read where they lie."""
    return [
        index
        for index, (value, kind) in enumerate(zip(args, captured.kinds, strict=True))
        if kind is Kind.STATIC and isinstance(value, nn.Parameter)
    ]


def is_abandoned(captured: Captured, places: Sequence[int]) -> bool:
    """Whether nobody but captures has the memory of any of these inputs."""
    return bool(places) and all(are_free([captured.inputs[index]], collect=False) for index in places)
