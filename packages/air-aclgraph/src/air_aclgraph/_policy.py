"""Lets the kind of a slot follow what its callers do, within bounds.

An input whose address never changes may be bound instead of copied; one that was bound and moves is copied
from then on; a mutated or static input that moves again and again is copied as well, so that a graph is not
captured for ever.  Every change is decided for one shape key, happens at most once, and is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from air_aclgraph._kept import Keeping
from air_aclgraph._slots import Kind, Slot

#: Recaptures that moving addresses may cause for one slot of one key before the slot is copied.
MOVES_ALLOWED: Final = 8

_AFTER_MOVES: Final = {Kind.STATIC: Kind.COPIED, Kind.MUTATED: Kind.CARRIED, Kind.BOUND: Kind.COPIED}


@dataclass
class KeyPolicy:
    """The kinds of the slots for one shape key, and how its outputs are handed out."""

    kinds: list[Kind]
    moves: Counter[int] = field(default_factory=Counter)
    was_bound: set[int] = field(default_factory=set)
    watched: bool = False
    keeping: Keeping = field(default_factory=Keeping)

    @classmethod
    def of(cls, slots: Sequence[Slot]) -> KeyPolicy:
        """Every slot as it was classified."""
        return cls([slot.kind for slot in slots])

    def moved(self, indices: Iterable[int]) -> list[str]:
        """Notes that these bound inputs have a new address; says which of them are copied from now on."""
        notes = []
        for index in indices:
            kind = self.kinds[index]
            self.moves[index] += 1
            allowed = 0 if kind is Kind.BOUND else MOVES_ALLOWED
            if self.moves[index] > allowed:
                self.kinds[index] = _AFTER_MOVES[kind]
                notes.append(f"input {index}: {kind.value} -> {self.kinds[index].value}, its address moves")
        return notes

    def stayed(self, indices: Iterable[int]) -> list[str]:
        """Binds copied inputs that kept their address; each at most once."""
        notes = []
        for index in indices:
            if self.kinds[index] is Kind.COPIED and index not in self.was_bound:
                self.was_bound.add(index)
                self.kinds[index] = Kind.BOUND
                notes.append(f"input {index}: copied -> bound, its address stays")
        return notes


class Watch:
    """Counts the calls for which copied inputs kept their address; says when that is enough to bind them."""

    def __init__(self, indices: Sequence[int], calls: int) -> None:
        self._indices = tuple(indices)
        self._calls = calls
        self._last: dict[int, int] = {}
        self._kept: Counter[int] = Counter()
        self._seen = 0

    def __call__(self, args: Sequence[Any]) -> bool:
        self._seen += 1
        for index in self._indices:
            address = args[index].data_ptr()
            self._kept[index] = self._kept[index] + 1 if self._last.get(index) == address else 1
            self._last[index] = address
        return self._seen >= self._calls

    def is_over(self) -> bool:
        """Whether it has seen as many calls as it is to see."""
        return self._seen >= self._calls

    def stable(self) -> list[int]:
        """The inputs whose address did not change while they were watched."""
        return [index for index in self._indices if self._kept[index] >= self._calls]
