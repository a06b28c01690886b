"""Lets the kind of a slot follow what its callers do, within bounds.

An input whose address never changes may be bound instead of copied; one that was bound and moves is copied
from then on; a mutated or static input that moves again and again is copied as well, so that a graph is not
captured for ever.  A static one that moves before its capture has paid for itself, twice in a row, is copied at
once: FSDP gathers a parameter into other memory in each call.  Every change is decided for one shape key, and is
reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from air_aclgraph._kept import Keeping
from air_aclgraph._key import Key
from air_aclgraph._large import Stays
from air_aclgraph._slots import Kind, Slot

#: Recaptures that moving addresses may cause for one slot of one key before the slot is copied.
MOVES_ALLOWED: Final = 8

#: The same for a static slot whose moves come before the captures have paid for themselves, one after the other.
HASTY_MOVES_ALLOWED: Final = 1

#: Moves of large inputs that were bound, of one or several at a time, after which all of a key are copied.
LARGE_MOVES_ALLOWED: Final = 2

_BEFORE_VISITS: Final = {Kind.CARRIED: Kind.MUTATED, Kind.COPIED: Kind.STATIC}
_AFTER_MOVES: Final = {
    Kind.STATIC: Kind.COPIED,
    Kind.MUTATED: Kind.CARRIED,
    Kind.BOUND: Kind.COPIED,
    Kind.LENT: Kind.COPIED,
}


@dataclass
class KeyPolicy:
    """The kinds of the slots for one shape key, and how its outputs are handed out."""

    kinds: list[Kind]
    moves: Counter[int] = field(default_factory=Counter)
    hasty_moves: Counter[int] = field(default_factory=Counter)
    was_bound: set[int] = field(default_factory=set)
    watched: bool = False
    large: set[int] = field(default_factory=set)
    """Inputs that are bound because copying them takes long."""
    large_moves: int = 0
    large_watched: bool = False
    visiting: set[int] = field(default_factory=set)
    """Inputs that are carried or copied because callers bring other memory each time."""
    adopted: set[int] = field(default_factory=set)
    """Inputs that took over the memory of the capture."""
    keeping: Keeping = field(default_factory=Keeping)
    left_out: bool | None = None
    """Whether a bisection runs the key without a capture; None until it is asked."""

    @classmethod
    def of(cls, slots: Sequence[Slot]) -> KeyPolicy:
        """Every slot as it was classified."""
        return cls([slot.kind for slot in slots])

    def moved(self, indices: Collection[int], *, hasty: bool = False) -> list[str]:
        """Notes that these bound inputs have a new address; says which of them are copied from now on.

        A move is `hasty` when the capture has been replayed too seldom to be worth another one.
        """
        notes = []
        for index in indices:
            kind = self.kinds[index]
            self.moves[index] += 1
            self.hasty_moves[index] = self.hasty_moves[index] + 1 if hasty and kind is Kind.STATIC else 0
            allowed = 0 if kind is Kind.BOUND else MOVES_ALLOWED
            restless = self.hasty_moves[index] > HASTY_MOVES_ALLOWED
            if restless:
                self.visiting.add(index)
            if restless or self.moves[index] > allowed:
                self.kinds[index] = _AFTER_MOVES[kind]
                notes.append(f"input {index}: {kind.value} -> {self.kinds[index].value}, its address moves")
        return notes + self._large_moved(indices)

    def _large_moved(self, indices: Collection[int]) -> list[str]:
        """When large inputs have moved twice, however many there are, all are copied."""
        if self.large.isdisjoint(indices):
            return []
        self.large_moves += 1
        self.large.difference_update(indices)
        return self.unbound() if self.large_moves >= LARGE_MOVES_ALLOWED else []

    def unbound(self) -> list[str]:
        """Large inputs that are bound are copied from now on; says which."""
        for index in self.large:
            self.kinds[index] = Kind.COPIED
        notes = [f"input {index}: bound -> copied" for index in sorted(self.large)]
        self.large.clear()
        return notes

    def is_first_move(self) -> bool:
        """Whether no bound input has had a new address before."""
        return not self.moves and not self.adopted

    def took_over(self, indices: Iterable[int]) -> list[str]:
        """These inputs lie where the capture has them; says so of each once."""
        new = [index for index in indices if index not in self.adopted]
        self.adopted.update(new)
        return [f"input {index}: takes over the memory of the capture in each request" for index in new]

    def carried(self, found: Mapping[int, Kind]) -> list[str]:
        """These inputs are carried from now on, through the memory of a caller that has let go of it."""
        notes = []
        for index, kind in found.items():
            notes.append(
                f"input {index}: {self.kinds[index].value} -> {kind.value}, callers bring other memory each time "
                "(air.adopt_inputs spares the copies)"
            )
            self.kinds[index] = kind
            self.visiting.add(index)
        return notes

    def stayed(self, indices: Iterable[int]) -> list[str]:
        """Binds inputs that kept their address: copied ones at most once, visitors whenever they stay."""
        notes = []
        for index in indices:
            if index in self.visiting:
                self.visiting.discard(index)
                was, self.kinds[index] = self.kinds[index], _BEFORE_VISITS[self.kinds[index]]
                notes.append(f"input {index}: {was.value} -> {self.kinds[index].value}, its address stays")
                continue
            if self.kinds[index] is Kind.COPIED and index not in self.was_bound:
                self.was_bound.add(index)
                self.kinds[index] = Kind.BOUND
                notes.append(f"input {index}: copied -> bound, its address stays")
        return notes


class Watch:
    """Counts the calls for which copied inputs kept their address; says when that is enough to bind them."""

    def __init__(self, indices: Sequence[int], calls: int) -> None:
        self._indices = tuple(indices)
        self.calls = calls
        self._last: list[int | None] = [None] * len(self._indices)
        self._since = [0] * len(self._indices)
        """The call, counted from 1, that brought the last address."""
        self._seen = 0

    def __call__(self, args: Sequence[Any]) -> bool:
        self._seen += 1
        now = [args[index].data_ptr() for index in self._indices]
        if now != self._last:
            for place, (address, last) in enumerate(zip(now, self._last, strict=True)):
                if address != last:
                    self._since[place] = self._seen
            self._last[:] = now
        return self._seen >= self.calls

    def is_over(self) -> bool:
        """Whether it has seen as many calls as it is to see."""
        return self._seen >= self.calls

    def stable(self) -> list[int]:
        """The inputs whose address did not change while they were watched."""
        enough = self._seen - self.calls + 1
        return [i for i, since in zip(self._indices, self._since, strict=True) if 0 < since <= enough]


class Watches:
    """Which inputs of which keys are watched for an address that stays."""

    def __init__(self, calls: int, bindable: frozenset[int]) -> None:
        self._calls = calls
        self._bindable = bindable
        self._watches: dict[Key, Watch] = {}
        self._large: dict[Key, Stays] = {}

    def of(
        self,
        key: Key,
        policy: KeyPolicy,
        kinds: Sequence[Kind],
        large: Callable[[], tuple[Mapping[int, int], int]],
    ) -> Callable[[Sequence[Any]], bool] | None:
        """What looks at each call of a key; `large`: which inputs are large, and how many calls they have to stay."""
        watch, stays = self._watch_of(key, policy, kinds), self._stays_of(key, policy, large)
        if watch is None or stays is None:
            return watch or stays
        return lambda args: watch(args) | stays(args)

    def _stays_of(
        self, key: Key, policy: KeyPolicy, large: Callable[[], tuple[Mapping[int, int], int]]
    ) -> Stays | None:
        if self._calls or policy.large_watched:
            return self._large.get(key)
        read, calls = large()
        policy.large_watched = True
        if read:
            self._large[key] = Stays({i: n for i, n in read.items() if i not in policy.visiting}, calls)
        return self._large.get(key)

    def dropped(self, key: Key, policy: KeyPolicy) -> None:
        """The capture of a key is gone; what was seen of its large inputs is seen anew by the next one."""
        if self._large.pop(key, None) is not None:
            policy.large_watched = False

    def forget(self, key: Key) -> None:
        """Nothing is known of a key any more."""
        self._watches.pop(key, None)
        self._large.pop(key, None)

    def pinned(self, key: Key, policy: KeyPolicy) -> bool:
        """A handle of this key takes large inputs, wherever they lie; gives whether the capture has some bound."""
        self._large.pop(key, None)
        policy.large_watched = True
        return bool(policy.unbound())

    def _watch_of(self, key: Key, policy: KeyPolicy, kinds: Sequence[Kind]) -> Watch | None:
        """The watch of a key; copied inputs are watched once."""
        if key in self._watches:
            return self._watches[key]
        indices = [
            i for i, k in enumerate(kinds) if k is Kind.COPIED and i in self._bindable - policy.was_bound
        ]
        if not self._calls or not indices or policy.watched:
            return None
        policy.watched = True
        return self.begin(key, indices, self._calls)

    def begin(self, key: Key, indices: Sequence[int], calls: int) -> Watch:
        """Watches these inputs for so many calls."""
        self._watches[key] = Watch(indices, calls)
        return self._watches[key]

    def ended(self, key: Key, policy: KeyPolicy) -> list[str] | None:
        """Notes on inputs that are bound from now on; None as long as they are watched, or where none is."""
        adaptive, large = self._ended(key, policy), self._large_ended(key, policy)
        return large if adaptive is None else [*adaptive, *(large or [])]

    def _large_ended(self, key: Key, policy: KeyPolicy) -> list[str] | None:
        stays = self._large.get(key)
        if stays is None or not stays.is_over():
            return None
        del self._large[key]
        stable = stays.stable()
        policy.large.update(stable)
        return policy.stayed(stable)

    def _ended(self, key: Key, policy: KeyPolicy) -> list[str] | None:
        watch = self._watches.get(key)
        if watch is None or not watch.is_over():
            return None
        del self._watches[key]
        notes = policy.stayed(watch.stable())
        if policy.visiting:
            self.begin(key, sorted(policy.visiting), watch.calls)
        return notes
