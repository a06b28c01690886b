"""A graph that runs as a straight function and has static kernels: the first call of each shape makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from air_aclgraph._key import Key, KeyOf
from air_aclgraph.static_kernel import StaticKernels


class EagerRun:
    """Calls the function; a shape key that was not seen yet goes through static kernel compilation."""

    def __init__(self, function: Callable[..., Any], kernels: StaticKernels, key_of: KeyOf | None) -> None:
        self.function = function
        self._kernels = kernels
        self._key_of = key_of
        self._seen: set[Key] = set()

    def __call__(self, *args: Any) -> Any:
        key: Key = () if self._key_of is None else self._key_of(args)
        if key in self._seen:
            return self.function(*args)
        result = self._kernels.around(key, lambda: self.function(*args))
        self._seen.add(key)
        return result

    def explain(self) -> dict[str, Any]:
        """What was done for each shape key."""
        return {"static kernels": self._kernels.explain()}
