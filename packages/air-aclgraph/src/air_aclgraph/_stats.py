"""What an executable did: numbers for `stats()` and for `torch._dynamo.utils.counters["air"]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch._dynamo.utils import counters

if TYPE_CHECKING:
    from air_aclgraph._captured import Captured


@dataclass
class Stats:
    """Counts of one executable; the same events are added to Dynamo's counters under "air"."""

    captures: int = 0
    recaptures: Counter[str] = field(default_factory=Counter)
    evictions: int = 0
    eager_calls: Counter[str] = field(default_factory=Counter)
    capture_seconds: float = 0.0
    failures: int = 0
    past_replays: int = 0
    past_copies: int = 0
    past_copied_bytes: int = 0

    def captured(self, seconds: float) -> None:
        self.captures += 1
        self.capture_seconds += seconds
        counters["air"]["captures"] += 1
        counters["air"]["capture_seconds"] += seconds  # type: ignore[assignment]  # a Counter adds what it is given

    def recaptured(self, cause: str) -> None:
        self.recaptures[cause] += 1
        counters["air"]["recaptures"] += 1
        counters["air"][f"recaptures: {cause}"] += 1

    def evicted(self) -> None:
        self.evictions += 1
        counters["air"]["evictions"] += 1

    def ran_eagerly(self, cause: str) -> None:
        self.eager_calls[cause] += 1
        counters["air"]["eager_calls"] += 1
        counters["air"][f"eager_calls: {cause}"] += 1

    def failed(self) -> None:
        self.failures += 1
        counters["air"]["capture_failures"] += 1

    def dropped(self, captured: Captured) -> None:
        """Keeps the counts of a capture that is replayed no more."""
        self.past_replays += captured.count[0]
        self.past_copies += captured.count[0] * captured.copies
        self.past_copied_bytes += captured.count[0] * captured.copied_bytes

    def with_replays(self, alive: Collection[Captured]) -> dict[str, Any]:
        """All counts, with those of the captures that there are."""
        return {
            **self.as_dict(),
            "keys": len(alive),
            "replays": self.past_replays + sum(c.count[0] for c in alive),
            "copies": self.past_copies + sum(c.count[0] * c.copies for c in alive),
            "copied_bytes": self.past_copied_bytes + sum(c.count[0] * c.copied_bytes for c in alive),
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "captures": self.captures,
            "recaptures": dict(self.recaptures),
            "evictions": self.evictions,
            "eager_calls": dict(self.eager_calls),
            "capture_failures": self.failures,
            "capture_seconds": self.capture_seconds,
        }


class History(list[str]):
    """What happened to a graph, in words; no more than a reader would read."""

    def note(self, text: str) -> None:
        """Adds a line."""
        if len(self) < 1000:
            self.append(text)

    @property
    def last(self) -> str:
        """The last line."""
        return self[-1] if self else "it ran under another key"
