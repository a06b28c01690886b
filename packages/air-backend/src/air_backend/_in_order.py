"""An executor whose graph shares streams or events with the program around it, in order with that program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import air_aclgraph
import air_streams


class InOrder:
    """Calls an executor so that its graph comes after what it may wait for, and before what may wait for it."""

    def __init__(
        self, executor: air_aclgraph.AnyExecutable, outside: air_streams.Outside, ground: torch.device
    ) -> None:
        self.executor = executor
        self.boxed: Callable[[Sequence[Any]], Any] = outside.around(executor.boxed, ground)
        self._outside, self._ground = outside, ground

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.executor.name

    def pinned(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        """A handle of the executor in the same order, with the streams and events of the call just made."""
        return self._outside.around(handle, self._ground, self._outside.objects().__getitem__)
