"""What an executable did: numbers for `stats()` and for `torch._dynamo.utils.counters["air"]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from torch._dynamo.utils import counters

if TYPE_CHECKING:
    from air_aclgraph._captured import Captured


class Stats:
    """Counts of one executable; the same events are added to Dynamo's counters under "air"."""

    def __init__(self) -> None:
        self._counts: dict[str, Any] = {
            "captures": 0,
            "recaptures": Counter(),
            "evictions": 0,
            "eager_calls": Counter(),
            "capture_failures": 0,
            "adopted_inputs": 0,
            "capture_seconds": 0.0,
        }
        self._past = Counter({"replays": 0, "copies": 0, "copied_bytes": 0})
        """Counts of captures that are replayed no more."""

    def __getitem__(self, what: str) -> Any:
        return self._counts[what]

    def add(self, what: str, amount: float = 1) -> None:
        """Counts an event."""
        self._counts[what] += amount
        counters["air"][what] += amount  # type: ignore[assignment]  # a Counter adds what it is given

    def add_cause(self, what: str, cause: str) -> None:
        """Counts an event that has several causes, by its cause."""
        self._counts[what][cause] += 1
        counters["air"][what] += 1
        counters["air"][f"{what}: {cause}"] += 1

    def dropped(self, captured: Captured) -> None:
        """Keeps the counts of a capture that is replayed no more."""
        self._past.update(_replayed(captured))

    def as_dict(self, alive: Collection[Captured]) -> dict[str, Any]:
        """All counts, with those of the captures that there are."""
        done = self._past.copy()
        for captured in alive:
            done.update(_replayed(captured))
        plain = {name: dict(n) if isinstance(n, Counter) else n for name, n in self._counts.items()}
        return {**plain, "keys": len(alive), **done}


def _replayed(captured: Captured) -> Mapping[str, int]:
    replays, copied = captured.count[0], captured.copied
    nbytes = sum(tensor.nbytes for tensor in copied)
    return {"replays": replays, "copies": replays * len(copied), "copied_bytes": replays * nbytes}


class History(list[str]):
    """What happened to a graph, in words; no more than a reader would read."""

    def note(self, text: str) -> None:
        """Adds a line; one that says the same as the last one is not repeated."""
        if len(self) < 1000 and text != self.last:
            self.append(text)

    @property
    def last(self) -> str:
        """The last line."""
        return self[-1] if self else "it ran under another key"
