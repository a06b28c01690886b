"""A graph that runs as one straight Python function: every pass has acted, nothing is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from air_aclgraph._key import Key, KeyOf
from air_aclgraph._straight import Straight
from air_aclgraph.static_kernel import StaticKernels
from air_graph.executors import WholeGraph


class EagerRun(WholeGraph):
    """Calls the function, which `straight` is or is at the bottom of."""

    def __init__(self, name: str, straight: Straight, function: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.straight = straight
        self.function = straight.function if function is None else function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    @property
    def source(self) -> str:
        """The function as Python: one line per operator."""
        return self.straight.source


class EagerRunWithKernels(EagerRun):
    """Its calls go through static kernel compilation, which takes the first of each shape key."""

    def __init__(self, run: EagerRun, kernels: StaticKernels, key_of: KeyOf | None) -> None:
        super().__init__(run.name, run.straight, run.function)
        self._kernels = kernels
        self._key_of = key_of

    def __call__(self, *args: Any) -> Any:
        key: Key = () if self._key_of is None else self._key_of(args)
        return self._kernels.around(key, lambda: self.function(*args))

    def explain(self) -> dict[str, Any]:
        """What was done for each shape key."""
        return {"static kernels": self._kernels.explain()}
