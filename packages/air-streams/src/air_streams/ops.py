"""Order and lifetimes: events between streams, and tensors used on a stream that did not make them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from air_streams._events import TaggedEvent, create_event
from air_streams._tags import checked_tag, checked_tensor
from air_streams.errors import InvalidArgument, UnknownEvent

__all__ = [
    "TaggedEvent",
    "npu_create_tagged_event",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]


def npu_create_tagged_event(tag: str) -> TaggedEvent:
    """A new event. Call it outside the compiled function, for example in `__init__`, and keep the result."""
    return create_event(tag)


def _key(event: object) -> str:
    if not isinstance(event, TaggedEvent):
        raise UnknownEvent(
            f"{event!r} is not a tagged event",
            advice="use what npu_create_tagged_event returned; native torch.Event objects have their own methods",
        )
    return event.key


def npu_tagged_event_record(event: TaggedEvent) -> None:
    """Marks this point of the current stream: a later wait waits for everything before it."""
    torch.ops.air_streams.event_record(_key(event))


def npu_tagged_event_wait(event: TaggedEvent) -> None:
    """Makes the current stream wait until the work before the event's last record is done."""
    torch.ops.air_streams.event_wait(_key(event))


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """Keeps the memory of `input` from being reused before the work issued so far on that stream is done."""
    checked_tensor(input, "input of npu_record_tagged_stream")
    torch.ops.air_streams.record_stream(input, checked_tag(tagged_stream, "tagged_stream"))


def record() -> torch.Tensor:
    """A marker (an empty tensor) of this point of the current stream, to be given to `wait`."""
    marker: torch.Tensor = torch.ops.air_streams.record()
    return marker


def wait(tensors: Sequence[torch.Tensor]) -> None:
    """Makes the current stream wait for markers and for the computation of ordinary tensors."""
    wanted = "wait needs a non-empty list of tensors or markers"
    given: object = tensors
    if isinstance(given, torch.Tensor):
        raise InvalidArgument(
            f"{wanted}, got one tensor of shape {tuple(given.shape)}",
            advice="put it into a list: wait([tensor])",
        )
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise InvalidArgument(
            f"{wanted}, got {tensors!r}",
            advice="give it what record() returned, or the tensors whose computation must be done",
        )
    for tensor in tensors:
        checked_tensor(tensor, "each that wait is given")
    torch.ops.air_streams.wait(list(tensors))
