"""Tagged events: made outside the graph, named inside it.

The graph carries an event as a string, its key. The key is the tag, with `#2`, `#3`, … added while earlier
events of the same tag are alive: a model class that creates its events in `__init__` can be instantiated any
number of times, and each instance has events of its own. So has each copy of a model (`copy.deepcopy`, as
`nn.TransformerEncoder` makes its layers), and a key that came with a pickled model is taken from then on.
"""

from __future__ import annotations

import uuid
import weakref
from typing import Any, Final

import torch

from air_graph import forks
from air_streams._tags import checked_tag
from air_streams.errors import Unsupported


class TaggedEvent:
    """An event with a name that can enter a graph. `npu_create_tagged_event` makes it."""

    tag: str
    key: str

    def __init__(self, tag: str, key: str) -> None:
        self.tag = tag
        self.key = key

    def record(self) -> None:
        """Marks this point of the current stream: see `npu_tagged_event_record`."""
        torch.ops.air_streams.event_record(self.key)

    def wait(self) -> None:
        """Makes the current stream wait for the last record: see `npu_tagged_event_wait`."""
        torch.ops.air_streams.event_wait(self.key)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaggedEvent:
        return _new_event(self.tag)

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__.update(state)
        with _lock:
            _alive.setdefault(self.key, self)

    def __repr__(self) -> str:
        return f"TaggedEvent({self.key!r})"


_MARKER: Final = "marker that leaves its graph "
_lock = forks.new_lock()
_alive: weakref.WeakValueDictionary[str, TaggedEvent] = weakref.WeakValueDictionary()
_device_events: dict[tuple[str, torch.device], torch.Event] = {}
_of_graphs: dict[tuple[str, torch.device], torch.Event] = {}
_recorded: set[str] = set()
"""Keys of events that were recorded, in eager code or in a graph that was compiled."""


def create_event(tag: str) -> TaggedEvent:
    """A new event of this tag, distinct from all living ones."""
    if torch.compiler.is_compiling():
        raise Unsupported(
            f"npu_create_tagged_event({tag!r}) was called inside a compiled function",
            advice="create the event once outside (for example in __init__) and use it inside",
        )
    checked_tag(tag, "tag of an event")
    return _new_event(tag)


def _new_event(tag: str) -> TaggedEvent:
    with _lock:
        key, count = tag, 1
        while key in _alive:
            count += 1
            key = f"{tag}#{count}"
        event = TaggedEvent(tag, key)
        _alive[key] = event
        _recorded.discard(key)  # that was another event
    return event


def note_record(key: str) -> None:
    """Notes that there is a record of this event, which a wait elsewhere can mean."""
    if key in _alive:
        _recorded.add(key)


def is_recorded(key: str) -> bool:
    """Whether the event was recorded in eager code, or in a graph that was compiled."""
    return key in _recorded


def device_event(key: str, device: torch.device) -> torch.Event:
    """The device event behind a key, made at its first use; graphs have keys of their own besides the tagged."""
    with _lock:
        _of_graphs.pop((key, device), None)
        event = _device_events.get((key, device))
        if event is None:
            event = torch.Event(device)
            _device_events[(key, device)] = event
    return event


def last_recorded(key: str, device: torch.device) -> torch.Event:
    """The device event that the last record of a key is in: its own, or that of the graph which recorded it."""
    of_a_graph = _of_graphs.get((key, device))
    return device_event(key, device) if of_a_graph is None else of_a_graph


def of_one_graph(keys: tuple[str, ...], device: torch.device) -> dict[tuple[str, torch.device], torch.Event]:
    """One device event for all that a graph records: outside of it, they are recorded when it has been started."""
    if not keys or device.type == "cpu":
        return {}
    return dict.fromkeys(((key, device) for key in keys), torch.Event(device))


def noted(events: dict[tuple[str, torch.device], torch.Event]) -> None:
    """Takes these from now on for what was recorded last."""
    with _lock:
        _of_graphs.update(events)


def new_marker() -> str:
    """The key of a marker that leaves its graph; no other one has it, in any process."""
    return f"{_MARKER}{uuid.uuid4().hex[:12]}"


def is_outside(key: str) -> bool:
    """Whether code outside of a graph has this event as well."""
    return key in _alive or key.startswith(_MARKER)


def markers(device: torch.device) -> list[tuple[str, torch.Event]]:
    """The events of markers that left a graph, and their keys."""
    with _lock:  # another thread may note one
        known = list(_of_graphs.items())
    return [(key, event) for (key, place), event in known if place == device and key.startswith(_MARKER)]
