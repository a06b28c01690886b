"""How often a key has to come before it is captured: more often, the more captures were for nothing or needed again.

    sizes                3 5 3 7 5 3 ..          each is captured when it first comes
    sizes, all new       311 97 1023 18 ..       after some captures in vain: a size that has come twice, four times, ..
    sizes in turn        1 2 3 .. 2000 1 2 ..    forgotten before they come again (`_recent`): never
    100 of 64 captured   17 80 3 99 17 64 ..     what made room comes again: nothing makes room that was replayed lately

A capture costs as much as many calls. It is worth that for a size that comes again while the capture is there. Where
the cache is full and its captures are dropped before they have been replayed, the calls of a size run eagerly until it
has come often enough; captures that are replayed make the graph quick to capture again.

Where sizes are a few more than the cache holds, every capture is replayed, and needed again soon after it made room.
When that has happened some times, a capture makes room only if it was not replayed for several times as many calls as
the cache has keys: sizes that come no more make room for others, and nothing else does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

from air_aclgraph._recent import Recent

log = logging.getLogger(__name__)

#: A capture has paid for itself when it was replayed so often.
WORTHWHILE: Final = 16

#: So many captures in a row are dropped before they have paid, until a key has to come more often.
IN_VAIN_ALLOWED: Final = 4

#: The most calls that a key is asked for.
MOST: Final = 256

#: Of so many keys for each that the cache holds it is known how often they came.
KNOWN: Final = 4

#: So many more captures that made room were needed again than were not, until none makes room that was replayed lately.
NEEDED_AGAIN: Final = 4

#: "Lately" is in so many calls for each key that the cache holds, and up to twice as many.
LATELY: Final = 8

#: The same for a cache that holds few.
LATELY_AT_LEAST: Final = 512

#: Calls without a capture between two looks at how many there were.
_LOOK_EVERY: Final = 16

TOO_RARE: Final = "a size that came too seldom for a capture"


class Replayed(Protocol):
    """A capture, and how often it was replayed."""

    count: list[int]


class Patience:
    """Counts the calls of each key, and what became of the captures."""

    def __init__(self, name: str, warmup: int, limit: int, note: Callable[[str], None]) -> None:
        self.calls = 1
        """How often a key has to come before it is captured."""
        self._name = name
        self._warmup = warmup
        self._limit = limit
        self._note = note
        self._recent = Recent(KNOWN * limit)
        self._asked: set[Hashable] = set()
        self._in_vain = 0
        self._is_crowded = False
        self._is_full = False
        self._gone: dict[Hashable, bool] = {}
        """What made room last, as many as the cache holds."""
        self._needed_again = 0
        self._lately = max(LATELY * limit, LATELY_AT_LEAST)
        self._missed = 0
        self._before: Mapping[Any, int] = {}
        self._last: Mapping[Any, int] = {}
        """How often each capture had been replayed when that was looked at last, and before."""

    def why_not_yet(
        self, key: Hashable, full: Mapping[Any, Replayed] | None = None, *, crowded: bool = False
    ) -> str | None:
        """Counts a call of a key that is not captured; says why it is not captured yet.

        `full` are the captures, the least recently used first, where one has to make room. What is `crowded` would only
        push out what is replayed: the keys of modules that are called one after the other.
        """
        if self._gone.pop(key, False):
            self._note_needed_again()
        seen = self._recent.came(key)
        if seen < self._warmup:
            return "warm-up"
        if key in self._asked:
            self._asked.discard(key)
            return None
        if crowded and not self._is_crowded:
            self._tell_crowded()
        return TOO_RARE if seen < (MOST if crowded else self._needed(full)) else None

    def _needed(self, full: Mapping[Any, Replayed] | None) -> int:
        """How often a key has to come now."""
        if not full:
            return self.calls
        self._look(full)
        oldest = next(iter(full))
        lately = full[oldest].count[0] != self._before.get(oldest, 0)
        return MOST if lately and self._needed_again >= NEEDED_AGAIN else self.calls

    def _look(self, full: Mapping[Any, Replayed]) -> None:
        """Notes now and then how often each capture was replayed."""
        self._missed += 1
        if self._missed % _LOOK_EVERY:
            return
        counts = {key: capture.count[0] for key, capture in full.items()}
        replays = sum(max(0, count - self._last.get(key, 0)) for key, count in counts.items())
        if self._missed + replays >= self._lately:
            self._before, self._last, self._missed = self._last, counts, 0

    def is_asked_for(self, key: Hashable) -> None:
        """A key that is captured as soon as it is warm, however seldom it came."""
        self._asked.add(key)

    def dropped(self, key: Hashable, replays: int) -> None:
        """A capture makes room for another one; keys may have to come more often from now on."""
        self._gone[key] = True
        if len(self._gone) > self._limit:
            del self._gone[next(iter(self._gone))]
            self._needed_again = max(0, self._needed_again - 1)
        if self.calls > 1:
            self._recent.forget(key)
        if replays >= WORTHWHILE:
            self._in_vain, self.calls = 0, max(1, self.calls // 2)
            return
        self._in_vain += 1
        if self._in_vain >= IN_VAIN_ALLOWED and self.calls < MOST:
            self._in_vain, self.calls = 0, 2 * self.calls
            self._tell_in_vain()

    def _note_needed_again(self) -> None:
        self._needed_again = min(NEEDED_AGAIN, self._needed_again + 1)
        if self._needed_again == NEEDED_AGAIN and not self._is_full:
            self._is_full = True
            self._note(
                f"captures are needed again soon after they made room: none makes room that was replayed in the last "
                f"{self._lately} calls, and other sizes run eagerly until they have come {MOST} times"
            )

    def tell_dropped(self, key: Hashable, other: Hashable, limit_bytes: int | None) -> None:
        """Warns of the first capture that makes room."""
        log.warning(
            "%s holds its limit of captured shapes: key %s is dropped for %s. Raise "
            "debug.aclgraph.static_capture_size_limit (%d) or air.cache.limit_bytes (%s), pad "
            "sizes to fewer (set_dim_buckets, not in training), or use max-autotune: one graph for all sizes.",
            self._name, key, other, self._limit, limit_bytes,
        )  # fmt: skip

    def _tell_in_vain(self) -> None:
        note = (
            f"the last {IN_VAIN_ALLOWED} captures that were dropped had been replayed less than {WORTHWHILE} times: "
            f"a size is captured when it has come {self.calls} times, and runs eagerly until then"
        )
        self._note(note)
        if self.calls == 2:
            log.warning(
                "%s: %s. Pad sizes to fewer (set_dim_buckets, not in training), raise "
                "debug.aclgraph.static_capture_size_limit if there are not many more of them, or use max-autotune: one "
                "graph for all sizes.", self._name, note,
            )  # fmt: skip

    def _tell_crowded(self) -> None:
        self._is_crowded = True
        note = (
            f"more modules share this graph than there may be captures ({self._limit}): one that is not captured runs "
            f"eagerly until it has come {MOST} times, and then takes the place of another"
        )
        self._note(note)
        log.warning(
            "%s: %s. Raise debug.aclgraph.static_capture_size_limit above their number times that of the sizes.",
            self._name, note,
        )  # fmt: skip
