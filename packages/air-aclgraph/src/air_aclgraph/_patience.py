"""How often a key has to come before it is captured: more often, the more captures were for nothing.

    sizes                3 5 3 7 5 3 ..          each is captured when it first comes
    sizes, all new       311 97 1023 18 ..       after some captures in vain: a size that has come twice, four times, ..
    sizes in turn        1 2 3 .. 2000 1 2 ..    forgotten before they come again (`_recent`): never
    100 of 64 captured   17 80 3 99 17 64 ..     what made room comes again (`_needed_again`): those that are there stay

A capture costs as much as many calls. It is worth that for a size that comes again while the capture is there. Where
the cache is full and its captures are dropped before they have been replayed, the calls of a size run eagerly until it
has come often enough; captures that are replayed make the graph quick to capture again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from air_aclgraph._needed_again import NeededAgain, Replayed
from air_aclgraph._recent import Recent
from air_aclgraph._remedy import SIZES

log = logging.getLogger(__name__)

#: A capture has paid for itself when it was replayed so often.
WORTHWHILE: Final = 16

#: So many captures in a row are dropped before they have paid, until a key has to come more often.
IN_VAIN_ALLOWED: Final = 4

#: The most calls that a key is asked for.
MOST: Final = 256

#: Of so many keys for each that the cache holds it is known how often they came.
KNOWN: Final = 4

TOO_RARE: Final = "a size that came too seldom for a capture"


class Patience:
    """Counts the calls of each key, and what became of the captures."""

    def __init__(
        self,
        name: str,
        warmup: int,
        limit: int,
        note: Callable[[str], None],
        remedy: Callable[[Hashable, Hashable], str] = lambda key, other: SIZES,
    ) -> None:
        self.calls = 1
        """How often a key has to come before it is captured."""
        self._name = name
        self._warmup = warmup
        self._limit = limit
        self._note = note
        self._remedy = remedy
        self._last: Hashable = None
        """The key that made room last."""
        self._recent = Recent(KNOWN * limit)
        self._asked: set[Hashable] = set()
        self._in_vain = 0
        self._is_crowded = False
        self._is_full = False
        self._needed_again = NeededAgain(limit)

    def why_not_yet(
        self, key: Hashable, full: Mapping[Any, Replayed] | None = None, *, crowded: bool = False
    ) -> str | None:
        """Counts a call of a key that is not captured; says why it is not captured yet.

        `full` are the captures, the least recently used first, where one has to make room. What is `crowded` would only
        push out what is replayed: the keys of modules that are called one after the other.
        """
        self._needed_again.came(key)
        if self._needed_again.is_usual and not self._is_full:
            self._tell_full()
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
        return MOST if full and self._needed_again.stays(full) else self.calls

    def is_asked_for(self, key: Hashable) -> None:
        """A key that is captured as soon as it is warm, however seldom it came."""
        self._asked.add(key)

    def dropped(self, key: Hashable, replays: int) -> None:
        """A capture makes room for another one; keys may have to come more often from now on."""
        self._needed_again.made_room(key)
        if self.calls > 1:
            self._recent.forget(key)
        if replays >= WORTHWHILE:
            self._in_vain, self.calls = 0, max(1, self.calls // 2)
            return
        self._in_vain += 1
        before, self._last = self._last, key
        if self._in_vain >= IN_VAIN_ALLOWED and self.calls < MOST:
            self._in_vain, self.calls = 0, 2 * self.calls
            self._tell_in_vain(self._remedy(before, key))

    def tell_dropped(self, key: Hashable, other: Hashable, limit_bytes: int | None) -> None:
        """Warns of the first capture that makes room."""
        log.warning(
            "%s holds its limit of captured shapes: key %s is dropped for %s. Raise "
            "debug.aclgraph.static_capture_size_limit (%d) or air.cache.limit_bytes (%s), %s, "
            "or use max-autotune: one graph for all sizes.",
            self._name, key, other, self._limit, limit_bytes, self._remedy(key, other),
        )  # fmt: skip

    def _tell_in_vain(self, remedy: str) -> None:
        note = (
            f"the last {IN_VAIN_ALLOWED} captures that were dropped had been replayed less than {WORTHWHILE} times: "
            f"a size is captured when it has come {self.calls} times, and runs eagerly until then"
        )
        self._note(note)
        if self.calls == 2:
            log.warning(
                "%s: %s. %s, raise debug.aclgraph.static_capture_size_limit if there are not many more of them, or use "
                "max-autotune: one graph for all sizes.", self._name, note, f"{remedy[0].upper()}{remedy[1:]}",
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

    def _tell_full(self) -> None:
        self._is_full = True
        self._note(
            f"captures are needed again soon after they made room: none makes room that was replayed in the last "
            f"{self._needed_again.lately} calls, and other sizes run eagerly until they have come {MOST} times"
        )
