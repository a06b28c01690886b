"""The process-wide table of streams: one tag on one device is one stream everywhere.

TorchAir has a table for each compiled module and another one for `record_tagged_stream`, so that the same tag in two
graphs means two streams, and a lifetime may be extended on a stream that nobody uses. Here there is one table: the
executors, the eager kernels and `record_stream` all ask it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from air_graph import forks, with_index
from air_streams._tags import ENTRY_TAG, checked_priority, checked_tag
from air_streams.errors import InvalidArgument, StreamPriorityError


@dataclass(frozen=True)
class _Entry:
    stream: torch.Stream
    priority: int


_lock = forks.new_lock()
_streams: dict[tuple[str, torch.device], _Entry] = {}
_used: set[str] = set()
"""Tags of streams that graphs use, also where the device has no streams of its own."""


def _new_stream(tag: str, device: torch.device, priority: int) -> torch.Stream:
    if device.type == "cpu":
        if priority:
            raise StreamPriorityError(
                f"stream '{tag}' asks for priority {priority}, but device 'cpu' has no stream priorities",
                advice="remove stream_priority (the default is 0) on this device",
            )
        return torch.Stream(device="cpu")
    module = torch.get_device_module(device)
    stream: torch.Stream = module.Stream(device=device, priority=priority)
    given = _priority_of(stream)
    if priority and given != priority:
        raise StreamPriorityError(
            f"stream '{tag}' asks for priority {priority}, but device '{device}' "
            + (f"gave it {given}" if given is not None else "does not say which priority a stream has"),
            advice="use a priority the device is known to have (0 is always one)",
        )
    return stream


def _priority_of(stream: torch.Stream) -> int | None:
    """The priority of a stream; None where the device does not tell (torch_npu raises)."""
    try:
        return int(getattr(stream, "priority", 0))
    except RuntimeError:
        return None


def stream_for(tag: str, device: torch.device | str, *, priority: int = 0) -> torch.Stream:
    """The stream behind `tag` on `device`, made at the first call; `priority` 0 accepts the one it has.

    Raises `StreamPriorityError` when another priority than the stream's own is asked for, or the device cannot
    give it. `ENTRY_TAG` is not in the table: the entry stream is the caller's current stream.
    """
    if tag == ENTRY_TAG:
        raise InvalidArgument(
            f"tag '{ENTRY_TAG}' is the stream on which the graph was entered, not one of the table",
            advice="ask the device for its current stream",
        )
    checked_tag(tag, "tag of a stream")
    checked_priority(priority, tag)
    key = (tag, with_index(device))
    with _lock:
        entry = _streams.get(key)
        if entry is None:
            entry = _Entry(_new_stream(tag, key[1], priority), priority)
            _streams[key] = entry
    if priority not in (0, entry.priority):
        raise StreamPriorityError(
            f"stream '{tag}' on '{key[1]}' exists with priority {entry.priority}, asked for {priority}",
            advice="use one priority per tag, given at its first use in the process, or another tag",
        )
    return entry.stream


def adopt_stream(tag: str, stream: torch.Stream, device: torch.device | str | None = None) -> None:
    """Puts a stream the user made behind `tag`, so that native code keeps its own streams."""
    checked_tag(tag, "tag of a stream")
    if not isinstance(stream, torch.Stream):
        raise InvalidArgument(f"adopt_stream takes a stream, got {stream!r}", advice="give a torch.Stream")
    where = with_index(stream.device if device is None else device)
    with _lock:
        _streams[(tag, where)] = _Entry(stream, _priority_of(stream) or 0)


def known_stream(tag: str, device: torch.device | str) -> torch.Stream | None:
    """The stream behind `tag`; None where nothing has made one."""
    with _lock:
        entry = _streams.get((tag, with_index(device)))
    return None if entry is None else entry.stream


def note_tag(tag: str) -> None:
    """Notes that a graph has operators on the stream of this tag."""
    with _lock:
        _used.add(tag)


def is_used(tag: str) -> bool:
    """Whether a stream of this tag exists, or a graph was read that uses one."""
    with _lock:
        return tag in _used or any(known == tag for known, _ in _streams)


def known_streams(device: torch.device | str) -> tuple[torch.Stream, ...]:
    """All streams of the table on one device."""
    where = with_index(device)
    with _lock:
        return tuple(entry.stream for (_, on), entry in _streams.items() if on == where)
