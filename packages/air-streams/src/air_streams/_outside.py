"""The order between a graph and the code around it, where both use the same streams and events of the program.

    event.record(side)                  an event is recorded, or work given to a stream, before the call
    y = compiled(x)                     inside: side.wait_event(event), or work on `side`, or done.record()
    side.wait_event(done)               afterwards work on `side`, or a wait for what was recorded inside

A captured graph runs on the stream that is current when it is called, whatever streams its parts had, and its events
are its own. So the call waits for all that the graph could have waited for, and all that could wait for a part of the
graph waits for the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from air_streams import _native


@dataclass(frozen=True)
class Outside:
    """Streams and events of a graph that code outside has as well, by the numbers that Dynamo gave them.

    The objects behind the numbers may be others in each call: they can be arguments of the program.
    """

    streams: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
    """Events that the graph waits for before it records them: what was recorded before the call is meant."""
    recorded: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.streams or self.awaited or self.recorded)

    def objects(self) -> dict[int, Any]:
        """The objects that are behind the numbers now."""
        numbers = (*self.streams, *self.awaited, *self.recorded)
        return {number: _native.object_at(number) for number in numbers}

    def around(
        self,
        run: Callable[..., Any],
        device: torch.device,
        found: Callable[[int], Any] = _native.object_at,
    ) -> Callable[..., Any]:
        """`run`, in order with what was given to these streams before, and what will be."""
        if not self or device.type == "cpu":
            return run
        module = torch.get_device_module(device)
        current_stream, capturing = module.current_stream, module.is_current_stream_capturing

        def ordered(*args: Any) -> Any:
            current = current_stream()
            for number in self.awaited:
                current.wait_event(found(number))
            # inside a capture the program itself says what belongs to it: another wait would pull a stream into it
            others = () if capturing() else [found(number) for number in self.streams]
            others = [stream for stream in others if stream != current]
            for stream in others:
                current.wait_stream(stream)
            results = run(*args)
            if others:
                done = current.record_event()
                for stream in others:
                    stream.wait_event(done)
            for number in self.recorded:
                found(number).record(current)
            return results

        return ordered
