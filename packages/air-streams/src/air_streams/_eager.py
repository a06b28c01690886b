"""The stream operators outside a graph: real streams and events where the device has them.

On a device without streams (cpu) the program order is the only order, so switching, recording and waiting have
nothing to do; crossed scopes are still an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from air_streams import _events, _registry
from air_streams._tags import ENTRY_TAG
from air_streams.errors import StreamPriorityError, UnbalancedScope, Unsupported


class _Thread(threading.local):
    def __init__(self) -> None:
        self.scopes: list[tuple[str, torch.Stream | None]] = []
        self.limits: list[tuple[torch.Stream, Any]] = []


_thread = _Thread()
_markers = WeakIdKeyDictionary()


def _accelerator() -> torch.device | None:
    """The device whose streams are meant: the current accelerator, if the process has a usable one."""
    if not torch.accelerator.is_available():
        return None
    device = torch.accelerator.current_accelerator()
    if device is None:
        return None
    return torch.device(device.type, torch.accelerator.current_device_index())


def _current(device: torch.device) -> torch.Stream:
    """The current stream as the device module's own class, which its functions insist on."""
    stream: torch.Stream = torch.get_device_module(device).current_stream(device)
    return stream


def _stream(tag: str, device: torch.device, priority: int = 0) -> torch.Stream:
    if tag != ENTRY_TAG:
        return _registry.stream_for(tag, device, priority=priority)
    outermost = next((before for _, before in _thread.scopes if before is not None), None)
    return outermost if outermost is not None else _current(device)


def stream_enter(tag: str, priority: int = 0, site: int = 0) -> None:
    """Makes the stream behind `tag` the current one."""
    device = _accelerator()
    if device is None:
        if priority:
            raise StreamPriorityError(
                f"stream '{tag}' asks for priority {priority}, but this process has no device with priorities",
                advice="remove stream_priority (the default is 0) where only the cpu is used",
            )
        _thread.scopes.append((tag, None))
        return
    stream = _stream(tag, device, priority)
    _thread.scopes.append((tag, _current(device)))
    torch.accelerator.set_stream(stream)


def stream_exit(tag: str, site: int = 0) -> None:
    """Goes back to the stream that was current before the matching `stream_enter`."""
    if not _thread.scopes or _thread.scopes[-1][0] != tag:
        open_tag = _thread.scopes[-1][0] if _thread.scopes else None
        raise UnbalancedScope(
            f"stream scope '{tag}' is left, but the innermost open one is {open_tag!r}",
            advice="use `with npu_stream_switch(...)`, which nests by itself",
        )
    _, before = _thread.scopes.pop()
    if before is not None:
        torch.accelerator.set_stream(before)


def event_record(event: str, site: int = 0) -> None:
    """Records the event on the current stream."""
    device = _accelerator()
    if device is not None:
        _events.device_event(event, device).record(_current(device))


def event_wait(event: str, site: int = 0) -> None:
    """Makes the current stream wait for the event's last record."""
    device = _accelerator()
    if device is not None:
        _events.device_event(event, device).wait(_current(device))


def record_stream(input: torch.Tensor, tag: str, site: int = 0) -> None:
    """Tells the allocator that the tensor is used on the stream behind `tag`."""
    if input.device.type == "cpu":
        return
    input.record_stream(_stream(tag, input.device))


def record(site: int = 0) -> torch.Tensor:
    """A marker of this point of the current stream, for `wait`."""
    marker = torch.empty(0)
    device = _accelerator()
    if device is not None:
        event = torch.Event(device)
        event.record(_current(device))
        _markers[marker] = event
    return marker


def wait(dependencies: Sequence[torch.Tensor], site: int = 0) -> None:
    """Makes the current stream wait for markers, and for whatever may still produce the other tensors."""
    device = _accelerator()
    if device is None:
        return
    stream = _current(device)
    for dependency in dependencies:
        event = _markers.get(dependency)
        if event is not None:
            event.wait(stream)
            continue
        # Eager mode does not know which stream made a tensor: waiting for all known ones is always enough.
        for other in (_stream(ENTRY_TAG, device), *_registry.known_streams(device)):
            if other != stream:
                stream.wait_stream(other)


def core_limit_enter(aicore: int, vectorcore: int, site: int = 0) -> None:
    """Limits the cores of the current stream."""
    device = _accelerator()
    module = None if device is None else torch.get_device_module(device)
    if device is None or not hasattr(module, "set_stream_limit"):
        raise Unsupported(
            f"limit_core_num({aicore}, {vectorcore}) needs a device with core limits, "
            f"'{'cpu' if device is None else device.type}' has none",
            advice="remove limit_core_num on this device, or run on an NPU",
        )
    assert module is not None
    stream = _current(device)
    _thread.limits.append((stream, module.get_stream_limit(stream)))
    module.set_stream_limit(stream, aicore, vectorcore)


def core_limit_exit(site: int = 0) -> None:
    """Restores the limits from before the matching `core_limit_enter`."""
    if not _thread.limits:
        raise UnbalancedScope(
            "a core limit is left that was never entered", advice="use `with limit_core_num(...)`"
        )
    stream, before = _thread.limits.pop()
    torch.get_device_module(stream.device).set_stream_limit(
        stream, before["cube_core_num"], before["vector_core_num"]
    )


def attributes_enter(names: Sequence[str], values: Sequence[str], site: int = 0) -> None:
    """Attributes speak to the compiler of a graph: without one there is nothing to do."""


def attributes_exit(site: int = 0) -> None:
    """The end of such a block."""
