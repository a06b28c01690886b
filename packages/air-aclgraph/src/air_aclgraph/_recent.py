"""How often keys came lately: of more keys than can be known, those that came longest ago are forgotten."""

from __future__ import annotations

from collections.abc import Hashable


class Recent:
    """Counts how often each of the keys came that came last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def came(self, key: Hashable) -> int:
        """Counts a key; gives how often it has come now."""
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]
        return count

    def forget(self, key: Hashable) -> None:
        """The key has not come before."""
        self._counts.pop(key, None)
