"""Whether captures that make room are needed again soon, and which of them then makes none.

    100 of 64 sizes      17 80 3 99 17 64 ..     what made room comes again: nothing makes room that was replayed lately

Where sizes are a few more than the cache holds, every capture is replayed, and needed again soon after it made room.
When that has happened some times, a capture makes room only if it was not replayed for several times as many calls as
the cache has keys: sizes that come no more make room for others, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol

#: So many more captures that made room were needed again than were not, until none makes room that was replayed lately.
NEEDED_AGAIN: Final = 4

#: "Lately" is in so many calls for each key that the cache holds, and up to twice as many.
LATELY: Final = 8

#: The same for a cache that holds few.
LATELY_AT_LEAST: Final = 512

#: Calls without a capture between two looks at how many there were.
_LOOK_EVERY: Final = 16


class Replayed(Protocol):
    """A capture, and how often it was replayed."""

    count: list[int]


class NeededAgain:
    """Counts the captures that were needed again soon after they made room."""

    def __init__(self, limit: int) -> None:
        self.lately = max(LATELY * limit, LATELY_AT_LEAST)
        self._limit = limit
        self._count = 0
        self._gone: dict[Hashable, None] = {}
        """What made room last, as many as the cache holds."""
        self._missed = 0
        self._before: Mapping[Any, int] = {}
        self._last: Mapping[Any, int] = {}
        """How often each capture had been replayed when that was looked at last, and before."""

    @property
    def is_usual(self) -> bool:
        """Whether captures that make room are needed again more often than not."""
        return self._count >= NEEDED_AGAIN

    def came(self, key: Hashable) -> None:
        """A key without a capture is called."""
        if key in self._gone:
            del self._gone[key]
            self._count = min(NEEDED_AGAIN, self._count + 1)

    def made_room(self, key: Hashable) -> None:
        """The capture of a key is dropped for another one."""
        self._gone[key] = None
        if len(self._gone) > self._limit:
            del self._gone[next(iter(self._gone))]
            self._count = max(0, self._count - 1)

    def stays(self, full: Mapping[Any, Replayed]) -> bool:
        """Whether none of the captures, the least recently used first, is to make room for a key that comes now."""
        self._look(full)
        oldest = next(iter(full))
        return self.is_usual and full[oldest].count[0] != self._before.get(oldest, 0)

    def _look(self, full: Mapping[Any, Replayed]) -> None:
        """Notes now and then how often each capture was replayed."""
        self._missed += 1
        if self._missed % _LOOK_EVERY:
            return
        counts = {key: capture.count[0] for key, capture in full.items()}
        replays = sum(max(0, count - self._last.get(key, 0)) for key, count in counts.items())
        if self._missed + replays >= self.lately:
            self._before, self._last, self._missed = self._last, counts, 0
