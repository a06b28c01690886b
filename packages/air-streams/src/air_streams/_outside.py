"""The order between a graph and the code around it, where both use the same streams and events of the program.

    event.record(side)                  an event is recorded, or work given to a stream, before the call
    y = compiled(x)                     inside: side.wait_event(event), or work on `side`, or done.record()
    side.wait_event(done)               afterwards work on `side`, or a wait for what was recorded inside

A captured graph runs on the stream that is current when it is called, whatever streams its parts had, and its events
are its own. So the call waits for all that the graph could have waited for, and all that could wait for a part of the
graph waits for the whole of it.

A graph that `set_stream` leaves on another stream is a part of a block (`with torch.npu.stream(s):`) that a graph break
cuts, or its author wants it so. When it has been started the host makes that stream current, as eager code does.

Inside a capture of the program's own only the streams that take part in it are waited for, and afterwards those take
part that would have after the program's own waits. Each is joined at once: the program may have done that in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from air_graph import is_captured
from air_streams import _eager, _events, _native
from air_streams._unmatched import Limits

CALLER: Final = -1
"""Stands for the stream of the call, and for what was recorded before it."""


@dataclass(frozen=True)
class Awaited:
    """What the operators of this package in a graph wait for, where that comes from before the call."""

    events: tuple[str, ...] = ()
    """Tagged events that are waited for before the graph records them."""
    given: bool = False
    """Whether a tensor or a marker that the graph is given is waited for."""
    recorded: tuple[str, ...] = ()
    """Tagged events that the graph records: code outside may wait for them."""

    def __bool__(self) -> bool:
        return bool(self.events or self.given or self.recorded)

    def wait(self) -> None:
        """Makes the current stream wait for it."""
        for event in self.events:
            _eager.event_wait_before(event)
        if self.given:
            _eager.wait_for_given()


@dataclass(frozen=True)
class Outside:
    """Streams and events of a graph that code outside has as well, by the numbers that Dynamo gave them.

    The objects behind the numbers may be others in each call: they can be arguments of the program.
    """

    streams: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
    """Events that the graph waits for before it records them: what was recorded before the call is meant."""
    recorded: tuple[int, ...] = ()
    waits: tuple[tuple[int, int], ...] = ()
    """Pairs of streams: the first waits in the graph for the second, or for one that does."""
    tagged: Awaited = field(default_factory=Awaited)
    limits: Limits = ()
    """Core limits that the graph enters or leaves alone."""
    ends: int | None = None
    """The stream that is current after the graph, where that is another one than before it."""

    def __bool__(self) -> bool:
        used = self.streams or self.awaited or self.recorded or self.tagged or self.limits
        return bool(used) or self.ends is not None

    def objects(self) -> dict[int, Any]:
        """The objects that are behind the numbers now."""
        numbers = (*self.streams, *self.awaited, *self.recorded)
        numbers = numbers if self.ends is None else (*numbers, self.ends)
        return {number: _native.object_at(number) for number in numbers}

    def around(
        self,
        run: Callable[..., Any],
        device: torch.device,
        found: Callable[[int], Any] = _native.object_at,
    ) -> Callable[..., Any]:
        """`run`, in order with what was given to these streams before, and what will be.

        A graph on the cpu, or one without a tensor, may be all that speaks of the accelerator's streams.
        """
        if self.limits:
            return replace(self, limits=()).around(_with_limits(run, self.limits), device, found)
        place = device if device.type != "cpu" else _eager.accelerator()
        if not self or place is None or not hasattr(torch.get_device_module(place), "current_stream"):
            return run
        ordered = self._ordered(run, place, found)
        return ordered if self.ends is None else _on_another_stream(ordered, self.ends, place, found)

    def _ordered(
        self, run: Callable[..., Any], device: torch.device, found: Callable[[int], Any]
    ) -> Callable[..., Any]:
        module = torch.get_device_module(device)
        recorded = _events.of_one_graph(self.tagged.recorded, device)
        current_stream, capturing = module.current_stream, module.is_current_stream_capturing

        def ordered(*args: Any) -> Any:
            # the numbers are torch's for the whole process: another thread's call gives them to its own objects
            events = {number: found(number) for number in (*self.awaited, *self.recorded)}
            current = current_stream()
            others = self._others(found, current)
            self.tagged.wait()
            for number in self.awaited:
                current.wait_event(events[number])
            inside = capturing()
            before = _captured(others) if inside else others
            for number in before:
                current.wait_stream(others[number])
            results = run(*args)
            after = self._pulled_in(_captured(others), others) if inside else others
            if after:
                done = current.record_event()
            for number in after:
                others[number].wait_event(done)
            for number in self.recorded:
                events[number].record(current)
            _eager.record_all(recorded, device, inside)
            if inside:
                for number in after:
                    current.wait_stream(others[number])
            return results

        return ordered

    def _others(self, found: Callable[[int], Any], current: Any) -> dict[int, Any]:
        """The streams that are not that of the call."""
        return {number: stream for number in self.streams if (stream := found(number)) != current}

    def _pulled_in(self, captured: Sequence[int], streams: Mapping[int, Any]) -> list[int]:
        """Those of the streams that are part of the program's capture once it has made the graph's waits."""
        part = {CALLER, *captured}
        follows = {waiting for waiting, awaited in self.waits if awaited in part}
        return [number for number in streams if number in part or number in follows]


def _with_limits(run: Callable[..., Any], limits: Limits) -> Callable[..., Any]:
    """`run`, after which the host enters and leaves these core limits, as eager code would have."""

    def limited(*args: Any) -> Any:
        results = run(*args)
        for cores in limits:
            _eager.move_limit(cores)
        return results

    return limited


def _on_another_stream(
    run: Callable[..., Any], number: int, device: torch.device, found: Callable[[int], Any]
) -> Callable[..., Any]:
    """`run`, after which another stream is current."""
    set_stream = torch.get_device_module(device).set_stream

    def moved(*args: Any) -> Any:
        stream = found(number)  # before another thread's call gives the number to its own
        results = run(*args)
        set_stream(stream)
        return results

    return moved


def _captured(streams: Mapping[int, Any]) -> list[int]:
    """Those of the streams that are being captured."""
    return [number for number, stream in streams.items() if is_captured(stream)]
