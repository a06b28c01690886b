"""How often a key has to come before it is captured: more often, the more captures were for nothing.

    sizes                3 5 3 7 5 3 ..          each is captured when it first comes
    sizes, all new       311 97 1023 18 ..       after some captures in vain: a size that has come twice, four times, ..
    sizes in turn        1 2 3 .. 2000 1 2 ..    forgotten before they come again: never

A capture costs as much as many calls. It is worth that for a size that comes again while the capture is there. Where
the cache is full and its captures are dropped before they have been replayed, the calls of a size run eagerly until it
has come often enough; captures that are replayed make the graph quick to capture again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Final

log = logging.getLogger(__name__)

#: A capture has paid for itself when it was replayed so often.
WORTHWHILE: Final = 16

#: So many captures in a row are dropped before they have paid, until a key has to come more often.
IN_VAIN_ALLOWED: Final = 4

#: The most calls that a key is asked for.
MOST: Final = 256

#: Of so many keys for each that the cache holds it is known how often they came; those that came longest ago go first.
KNOWN: Final = 4

TOO_RARE: Final = "a size that came too seldom for a capture"


class Patience:
    """Counts the calls of each key, and what became of the captures."""

    def __init__(self, name: str, warmup: int, limit: int, note: Callable[[str], None]) -> None:
        self.calls = 1
        """How often a key has to come before it is captured."""
        self._name = name
        self._warmup = warmup
        self._limit = limit
        self._note = note
        self._seen: dict[Hashable, int] = {}
        self._asked: set[Hashable] = set()
        self._in_vain = 0
        self._is_crowded = False

    def why_not_yet(self, key: Hashable, crowded: bool = False) -> str | None:
        """Counts a call of a key that is not captured; says why it is not captured yet.

        What is `crowded` would only push out what is replayed: the keys of modules that are called one after the other.
        """
        seen = self._seen[key] = self._seen.pop(key, 0) + 1
        if len(self._seen) > KNOWN * self._limit:
            del self._seen[next(iter(self._seen))]
        if seen < self._warmup:
            return "warm-up"
        if key in self._asked:
            self._asked.discard(key)
            return None
        if crowded and not self._is_crowded:
            self._tell_crowded()
        return TOO_RARE if seen < (MOST if crowded else self.calls) else None

    def is_asked_for(self, key: Hashable) -> None:
        """A key that is captured as soon as it is warm, however seldom it came."""
        self._asked.add(key)

    def forget(self, key: Hashable) -> None:
        """The key is known no more."""
        self._seen.pop(key, None)

    def dropped(self, key: Hashable, replays: int) -> None:
        """A capture makes room for another one; keys may have to come more often from now on."""
        if self.calls > 1:
            self.forget(key)
        if replays >= WORTHWHILE:
            self._in_vain, self.calls = 0, max(1, self.calls // 2)
            return
        self._in_vain += 1
        if self._in_vain >= IN_VAIN_ALLOWED and self.calls < MOST:
            self._in_vain, self.calls = 0, 2 * self.calls
            self._tell_in_vain()

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
