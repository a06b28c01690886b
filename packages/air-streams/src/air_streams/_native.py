"""Names for native streams and events, so that a graph can speak of them with strings.

An accelerator's stream is known by its device and id, whichever Python object holds it. A cpu "stream" has no
id of its own (all are 0), so there the object counts. The stream that is current when the graph is compiled is
the entry stream.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch._dynamo import graph_bytecode_inputs
from torch.utils.weak import WeakIdKeyDictionary

from air_graph import forks
from air_streams import _registry
from air_streams._tags import ENTRY_TAG

_lock = forks.new_lock()
_events = WeakIdKeyDictionary()
_cpu_streams = WeakIdKeyDictionary()
_count = itertools.count()


def object_at(index: int) -> Any:
    """The stream or event behind a number that Dynamo put into the graph."""
    return graph_bytecode_inputs.get_external_object_by_index(index)


def is_stream(index: Any) -> bool:
    """Whether Dynamo gave this number to a stream."""
    known = graph_bytecode_inputs.index_to_external_object_weakref
    return type(index) is int and index in known and isinstance(known[index](), torch.Stream)


def is_of_the_call(index: int) -> bool:
    """Whether this is the number under which Dynamo has the stream that is current at each call."""
    return bool(index == getattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX", None))


def may_be_current(index: int) -> bool:
    """Whether a program that sets this stream may change what is current; on the cpu nothing is."""
    return not is_of_the_call(index) and object_at(index).device.type != "cpu"


def set_entry_stream_again() -> None:
    """Makes the stream current that was when Dynamo began: it carries a `set_stream` out while it traces it."""
    index = getattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX", None)
    if index in graph_bytecode_inputs.index_to_external_object_weakref:
        first = object_at(index)
        if isinstance(first, torch.Stream) and first.device.type != "cpu":
            torch.accelerator.set_stream(first)


def _entry_stream(device: torch.device) -> torch.Stream:
    """The stream that was current when Dynamo began; tracing a `set_stream` changes the one that is current now."""
    index = getattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX", None)
    if index in graph_bytecode_inputs.index_to_external_object_weakref:
        first = object_at(index)
        if isinstance(first, torch.Stream) and first.device == device:
            return first
    return torch.accelerator.current_stream(device)


def is_entry(stream: torch.Stream) -> bool:
    """Whether this is the stream on which the compiled function is entered."""
    if stream.device.type == "cpu" or not torch.accelerator.is_available():
        return False
    entry = _entry_stream(stream.device)
    return bool(entry.stream_id == stream.stream_id and entry.device == stream.device)


def stream_tag(stream: torch.Stream) -> str:
    """The tag of a native stream; from now on the process-wide table knows the stream by it."""
    if is_entry(stream):
        return ENTRY_TAG
    if stream.device.type == "cpu":
        tag = f"native:cpu:{_number(stream, _cpu_streams)}"
    else:
        tag = f"native:{stream.device}:{stream.stream_id}"
    _registry.adopt_stream(tag, stream)
    return tag


def name_of(native: torch.Stream | torch.Event) -> str:
    """The tag of a stream, or the key of an event."""
    return stream_tag(native) if isinstance(native, torch.Stream) else event_key(native)


def event_key(event: torch.Event) -> str:
    """The key of a native event."""
    return f"native:{_number(event, _events)}"


def _number(thing: object, numbers: WeakIdKeyDictionary) -> int:
    """The number of an object, given when it is first asked for; never given twice."""
    with _lock:
        if thing not in numbers:
            numbers[thing] = next(_count)
        return int(numbers[thing])
