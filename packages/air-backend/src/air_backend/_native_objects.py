"""Lets a file record that a model has a stream or an event, without storing the object.

What Dynamo checks of such an object in another process is its type; the object itself is always the one of the process
that runs. So while a graph is written, pickle takes a new object of the same type for it. Torch leaves streams out of
what it writes, and then compares the type of a stream with that of what it has left: no call would meet that condition.

Torch also leaves out the values of attributes that a trace has not read, by their identity. There is only one
`torch.float32`: where a model has it as an attribute, the type of every tensor would be left out.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final
from unittest.mock import patch

import torch
from torch._dynamo import guards

from air_graph import forks

being_written: Final[ContextVar[bool]] = ContextVar("air_backend_native_objects", default=False)
"""Whether `native_objects_by_type` is entered here: a graph with such objects can be written."""
_lock = forks.new_lock()
_LEFT_OUT: Final = "_get_unsupported_types"
_WITH_DEVICE: Final = (torch.Stream, torch.Event)
_ONE_FOR_ALL: Final = (torch.dtype, torch.layout, torch.memory_format, enum.Enum)


class _Missing(dict[int, Any]):
    """The values that are left out, by identity, without those that others use as well."""

    def __setitem__(self, key: int, value: Any) -> None:
        if not isinstance(value, _ONE_FOR_ALL):
            super().__setitem__(key, value)


class _Pickler(guards.GuardsStatePickler):
    """Torch's, which leaves nothing out that others use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        missing, self.missing_values = getattr(self, "missing_values", {}), _Missing()
        for key, value in missing.items():
            self.missing_values[key] = value


@contextlib.contextmanager
def native_objects_by_type() -> Iterator[None]:
    """For as long as this is entered, streams and events are pickled as their types."""
    reducers = dict.fromkeys(_classes(*_WITH_DEVICE), _by_type)
    left_out = tuple(cls for cls in getattr(guards, _LEFT_OUT)() if not issubclass(torch.Stream, cls))
    with (
        _lock,
        patch.dict(copyreg.dispatch_table, reducers),
        patch.object(guards, _LEFT_OUT, lambda: left_out),
        patch.object(guards, "GuardsStatePickler", _Pickler),
    ):
        token = being_written.set(True)
        try:
            yield
        finally:
            being_written.reset(token)


def _classes(*roots: type) -> Iterator[type]:
    for root in roots:
        yield root
        yield from _classes(*root.__subclasses__())


def _by_type(native: Any) -> tuple[Any, ...]:
    plain = type(native) in _WITH_DEVICE  # the classes of a device's module know their device
    return _one_of, (type(native), str(native.device.type) if plain else None)


def _one_of(cls: type, device: str | None) -> Any:
    return cls() if device is None else cls(device=device)
