"""The stream operators outside a graph: eager code keeps the order of the program, whatever its scopes say.

A scope is for the compiler, which sees the whole graph, orders its streams and knows how long each value lives.
Eager code has no plan: were the stream really switched, a value made inside a block and read after it would be a
race. So a block changes nothing here and has no state: it may hold an exception, a generator that stops in the middle,
another thread. Events, markers and lifetimes stay real, because the program may itself be on a stream of torch's
(`with torch.npu.stream(s):`); without one they order what is in order anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from air_graph import forks, is_captured
from air_streams import _events, _registry
from air_streams._tags import ENTRY_TAG
from air_streams.errors import UnbalancedScope, Unsupported


@dataclass(frozen=True)
class _Marker:
    """What a marker stands for."""

    event: torch.Event
    captured: torch.Stream | None
    """The stream where it was recorded inside a capture of the program."""


_markers = WeakIdKeyDictionary()
_recorded_in_a_capture: dict[tuple[str, torch.device], torch.Stream] = {}
"""The events whose last record was one inside a capture, and its stream."""


def accelerator() -> torch.device | None:
    """The device whose streams are meant: the current accelerator, if the process has a usable one."""
    device = torch.accelerator.current_accelerator(check_available=True)
    return device and torch.device(device.type, torch.accelerator.current_device_index())


def _current(device: torch.device) -> torch.Stream:
    """The current stream as the device module's own class, which its functions insist on."""
    stream: torch.Stream = torch.get_device_module(device).current_stream(device)
    return stream


def _is_capturing(device: torch.device) -> bool:
    return bool(torch.get_device_module(device).is_current_stream_capturing())


def stream_enter(tag: str, priority: int = 0, site: int = 0) -> None:
    """Nothing: eager code stays on the stream it is on."""


def stream_exit(tag: str, site: int = 0) -> None:
    """Nothing, as `stream_enter`; that blocks of a graph nest is checked by its plan."""


def event_record(event: str, site: int = 0) -> None:
    """Records the event on the current stream."""
    _events.note_record(event)
    device = accelerator()
    if device is not None:
        _events.device_event(event, device).record(_current(device))
        _note_captured({(event, device): None}, device, _is_capturing(device))


def event_wait(event: str, site: int = 0) -> None:
    """Makes the current stream wait for the event's last record."""
    device = accelerator()
    if device is not None:
        _events.last_recorded(event, device).wait(_current(device))


def record_all(
    events: dict[tuple[str, torch.device], torch.Event], device: torch.device, is_capturing: bool
) -> None:
    """Records what a graph records, for those outside who wait for it: all with one event, or more in a capture."""
    if not events:
        return
    if is_capturing:
        events = dict.fromkeys(events, torch.Event(device))
    next(iter(events.values())).record(_current(device))
    _events.noted(events)
    _note_captured(events, device, is_capturing)


def _note_captured(
    events: Iterable[tuple[str, torch.device]], device: torch.device, is_capturing: bool
) -> None:
    """Notes whether these were recorded in a capture now."""
    if is_capturing:
        _recorded_in_a_capture.update(dict.fromkeys(events, _current(device)))
        return
    for event in events:
        _recorded_in_a_capture.pop(event, None)


def record_stream(input: torch.Tensor, tag: str, site: int = 0) -> None:
    """Tells the allocator that the tensor is used on the stream behind `tag`; a tag without a stream uses nothing."""
    if input.device.type == "cpu":
        return
    entry = tag == ENTRY_TAG
    stream = _current(input.device) if entry else _registry.known_stream(tag, input.device)
    if stream is not None:
        input.record_stream(stream)


def record(site: int = 0) -> torch.Tensor:
    """A marker of this point of the current stream, for `wait`."""
    marker = torch.empty(0)
    device = accelerator()
    if device is not None:
        event = torch.Event(device)
        event.record(_current(device))
        _markers[marker] = _Marker(event, _current(device) if _is_capturing(device) else None)
    return marker


def wait(dependencies: Sequence[torch.Tensor], site: int = 0) -> None:
    """Makes the current stream wait for markers, and for whatever may still produce the other tensors."""
    device = accelerator()
    if device is None:
        return
    stream = _current(device)
    for dependency in dependencies:
        marker = _markers.get(dependency)
        if marker is not None:
            marker.event.wait(stream)
        else:
            _wait_for_streams(stream, device)


def event_wait_before(event: str) -> None:
    """`event_wait` for a compiled function: inside a capture, a record from before the capture cannot be waited for.

    The record that is meant may be in a graph that was compiled, which leaves no event behind.
    """
    device = accelerator()
    if device is not None and ((event, device) in _recorded_in_a_capture or not _is_capturing(device)):
        event_wait(event)


def wait_for_given() -> None:
    """`wait` for whatever a compiled function is given: every marker there is, and what may produce tensors."""
    device = accelerator()
    if device is not None:
        _wait_for_streams(_current(device), device, list(_markers.values()))


def _wait_for_streams(stream: torch.Stream, device: torch.device, markers: Iterable[_Marker] = ()) -> None:
    """It is not known which stream made a tensor: the device's default stream and those behind tags are waited for.

    A stream of the program that no tag names is the program's to wait for. Inside a capture of the program what was
    given to a stream before it cannot be waited for, and outside of it no captured stream can.
    """
    left_their_graphs = [
        _Marker(event, _recorded_in_a_capture.get((key, device))) for key, event in _events.markers(device)
    ]
    inside = _is_capturing(device)
    others = [torch.get_device_module(device).default_stream(device), *_registry.known_streams(device)]
    for marker in (*markers, *left_their_graphs):
        if inside and marker.captured is not None:
            others.append(marker.captured)  # its event may be of a capture that has ended
        elif not inside and marker.captured is None:
            marker.event.wait(stream)
    for other in dict.fromkeys(others):
        if other != stream and is_captured(other) == inside:
            stream.wait_stream(other)


@dataclass(eq=False)
class _Limit:
    stream: torch.Stream
    cores: tuple[int, int]


@dataclass
class _Limits:
    """The limits in force on each stream: the newest acts, and what was there before all of them comes back last.

    Threads share streams and leave their blocks in any order, so each takes away its own limit and no other.
    """

    lock: Any = field(default_factory=forks.new_lock)
    open: dict[torch.Stream, list[_Limit]] = field(default_factory=dict)
    before: dict[torch.Stream, tuple[int, int]] = field(default_factory=dict)
    mine: Any = field(default_factory=threading.local)

    def stack(self) -> list[_Limit]:
        """The limits that this thread has set and not taken back."""
        if not hasattr(self.mine, "stack"):
            self.mine.stack = []
        stack: list[_Limit] = self.mine.stack
        return stack

    def enter(self, stream: torch.Stream, cores: tuple[int, int], module: Any) -> None:
        with self.lock:
            if stream not in self.before:
                found = module.get_stream_limit(stream)
                self.before[stream] = (found["cube_core_num"], found["vector_core_num"])
            module.set_stream_limit(stream, *cores)
            limit = _Limit(stream, cores)
            self.open.setdefault(stream, []).append(limit)
            self.stack().append(limit)

    def exit(self, limit: _Limit, module: Any) -> None:
        with self.lock:
            left = self.open[limit.stream]
            left.remove(limit)
            if left:
                module.set_stream_limit(limit.stream, *left[-1].cores)
                return
            del self.open[limit.stream]
            module.set_stream_limit(limit.stream, *self.before.pop(limit.stream))


_limits = _Limits()


def core_limit_enter(aicore: int, vectorcore: int, tag: str = "", site: int = 0) -> None:
    """Limits the cores of the stream behind `tag`, or of the current stream."""
    device = accelerator()
    named = None if device is None or tag in ("", ENTRY_TAG) else _registry.known_stream(tag, device)
    limit_cores(named, aicore, vectorcore)


def limit_cores(stream: torch.Stream | None, aicore: int, vectorcore: int) -> None:
    """Limits the cores of a stream, or of the current one where it is None."""
    device = accelerator()
    module: Any = None if device is None else torch.get_device_module(device)
    if device is None or not hasattr(module, "set_stream_limit"):
        raise Unsupported(
            f"limit_core_num({aicore}, {vectorcore}) needs a device with core limits, "
            f"'{'cpu' if device is None else device.type}' has none",
            advice="remove limit_core_num on this device, or run on an NPU",
        )
    _limits.enter(_current(device) if stream is None else stream, (aicore, vectorcore), module)


def move_limit(cores: tuple[int, int] | None) -> None:
    """Enters a limit, or leaves one, that a graph entered or left alone; nothing where there are no limits."""
    device = accelerator()
    if device is None or not hasattr(torch.get_device_module(device), "set_stream_limit"):
        return
    if cores is not None:
        limit_cores(None, *cores)
    elif _limits.stack():
        core_limit_exit()


def core_limit_exit(site: int = 0) -> None:
    """Takes the matching limit of this thread back."""
    stack = _limits.stack()
    if not stack:
        raise UnbalancedScope(
            "a core limit is left that was never entered in this thread",
            advice="use `with limit_core_num(...)`",
        )
    limit = stack.pop()
    _limits.exit(limit, torch.get_device_module(limit.stream.device))


def attributes_enter(names: Sequence[str], values: Sequence[str], site: int = 0) -> None:
    """Attributes speak to the compiler of a graph: without one there is nothing to do."""


def attributes_exit(site: int = 0) -> None:
    """The end of such a block."""
