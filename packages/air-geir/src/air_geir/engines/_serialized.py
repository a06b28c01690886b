"""Makes the calls of a graph on a device one at a time and in the order of one stream, also for several threads.

An engine keeps the arguments of a call and the memory of a graph's intermediate values in one place. Two threads would
overwrite each other's, and so would two streams: the engine's work is on the stream of the first call. A call from
another stream waits for the work on that stream, and later work on the caller's stream waits for the call. Collectives
of a graph have their turn among those that the program starts itself, and once their process groups have been destroyed
and made anew, the graph is compiled for the communicators of the new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from air_geir.engines._ahead import BackgroundCompilation
from air_geir.engines._groups import NamedGroups
from air_geir.engines._protocol import Compiled
from air_geir.errors import EngineError
from air_geir.ir import Graph
from air_graph import is_captured
from air_graph.ranks import Groups
from air_streams import in_turn


class SerializedCalls:
    """A compiled graph that threads and streams may share.

    `ahead` is its compilation, where that has been started: the first call waits for it. The process groups are those
    that `graph` names before the first call, which puts the engine's own names in their place. `again` makes what
    compiles the graph once more.
    """

    def __init__(
        self,
        compiled: Compiled,
        graph: Graph,
        ahead: BackgroundCompilation | None = None,
        *,
        again: Callable[[], Compiled] | None = None,
    ) -> None:
        self._compiled = compiled
        self._again = again
        self._run: Callable[..., Sequence[torch.Tensor]] = compiled
        self._groups = NamedGroups(graph)
        self._meant = Groups(())
        self._ahead = ahead
        self._lock = threading.RLock()
        self._device: Any = None
        self._home: Any = None
        self._name: object = None
        self._current: Any = None

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        with self._lock:
            if self._meant.are_others():
                self._leave_groups()
            if self._home is None:
                self._take_home()
            if self._current() == self._name:
                return self._run(inputs, assigned)
            return self._from_elsewhere(inputs, assigned)

    def _take_home(self) -> None:
        if self._ahead is not None:
            try:
                self._ahead.wait()
            except Exception:
                self._ahead = None  # the next call compiles by itself
                raise
            self._ahead = None  # after an interrupt it still runs, and the next call waits for it
        import torch_npu  # present whenever an engine of a device is

        self._device = npu = torch.get_device_module("npu")
        number = npu.current_device()
        named = getattr(torch_npu._C, "_npu_getCurrentStream", None)
        self._current = npu.current_stream if named is None else partial(named, number)
        self._meant = Groups(self._groups.names)
        self._run = in_turn(self._compiled, self._groups.names, torch.device("npu", number))
        self._home, self._name = npu.current_stream(), self._current()

    def _leave_groups(self) -> None:
        """Has the graph compiled again: the communicators that it names are gone."""
        if gone := self._meant.gone():
            raise EngineError(
                f"the graph has collectives of process group {', '.join(gone)}, which has been destroyed",
                advice="call the function before destroy_process_group(), or make a group of this name again",
            )
        if self._again is not None:
            self._home.synchronize()
            self._compiled.close()
            self._groups.restore()
            self._compiled, self._home = self._again(), None

    def _from_elsewhere(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        caller = self._device.current_stream()
        if is_captured(self._home) and not is_captured(caller):
            raise EngineError(
                f"the graph is called on {caller}, outside a capture that the program makes on {self._home}; "
                "the engine runs a graph on the stream of its first call only, which is that one",
                advice="call the function after the capture, or capture on a new stream",
            )
        self._home.wait_stream(caller)
        with self._device.stream(self._home):
            results = self._run(inputs, assigned)
        caller.wait_stream(self._home)
        for result in results:
            if result.device.type == "npu":
                result.record_stream(caller)
        return results

    def stats(self) -> Mapping[str, object]:
        """Numbers about compilation and runs."""
        return self._compiled.stats()

    def close(self) -> None:
        """Frees everything, once nothing runs: the engine would wait while it holds Python's lock."""
        with self._lock:
            self._again = None  # what is closed stays closed
            if self._ahead is not None:
                self._ahead.drop()
            if self._home is not None:
                self._home.synchronize()
            self._compiled.close()
