"""Which copied inputs of a call share memory with what the graph writes: a copy would not see the write.

A carried input is a copy that is taken back, so it may not share memory with anything that is used where it lies.
Stretches of memory are sorted once, and each input is looked up among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from torch import Tensor

from air_aclgraph._memory import byte_range
from air_aclgraph._slots import Kind
from air_graph import Stretch, Stretches

CHECKED: Final = (Kind.STATIC, Kind.MUTATED, Kind.BOUND, Kind.LENT)
COPIES: Final = (Kind.COPIED, Kind.CARRIED)
#: What an input of this kind may not share memory with.
_APART: Final = {Kind.COPIED: (Kind.CARRIED, Kind.MUTATED), Kind.CARRIED: (Kind.CARRIED, *CHECKED)}
#: Addresses of copied inputs remembered as clear of the memory the graph writes.
CLEARED_LIMIT: Final = 4096


def _stretches(
    args: Sequence[Any], kinds: Sequence[Kind], wholes: frozenset[int], relevant: Sequence[Kind]
) -> list[Stretch]:
    """The memory of the inputs of some kinds."""
    every = (_stretch(args[i], i, wholes) for i, kind in enumerate(kinds) if kind in relevant)
    return [stretch for stretch in every if stretch is not None]


def _stretch(value: Any, index: int, wholes: frozenset[int]) -> Stretch | None:
    whole = index in wholes
    if not isinstance(value, Tensor) or not (value.numel() or whole):
        return None
    return Stretch(*byte_range(value, all_of_storage=whole), index)


def clashing(
    args: Sequence[Any],
    kinds: Sequence[Kind],
    wholes: frozenset[int] = frozenset(),
    among: Iterable[int] | None = None,
) -> list[int]:
    """The copied inputs, of those `among` all, whose copy would miss a write, or hide one of its own."""
    copied = [i for i in (range(len(kinds)) if among is None else among) if kinds[i] in COPIES]
    found = {
        kind: Stretches(_stretches(args, kinds, wholes, _APART[kind])) for kind in {kinds[i] for i in copied}
    }
    return [i for i in copied if found[kinds[i]].meet(_stretch(args[i], i, wholes))]


class Cleared:
    """Addresses at which the copied inputs of a key were found clear of the memory that its graph writes.

    Memory that is written where it is stays. Carried inputs may lie elsewhere in each call: what is known holds as
    long as all of them stay.
    """

    def __init__(self, kinds: Sequence[Kind], wholes: frozenset[int]) -> None:
        self._kinds, self._wholes = tuple(kinds), wholes
        self.copied = {i: set[int]() for i, kind in enumerate(kinds) if kind is Kind.COPIED}
        self.carried = tuple(i for i, kind in enumerate(kinds) if kind is Kind.CARRIED)
        self.where: list[tuple[int, ...] | None] = [None]
        """Where the carried inputs were."""
        self._written: Stretches | None = None
        self._in_place: list[Stretch] | None = None
        """The memory of what is used where it is, which stays."""

    def carried_elsewhere(self, args: Sequence[Any], where: tuple[int, ...]) -> bool:
        """Whether the carried inputs, which lie there now, are clear."""
        for addresses in self.copied.values():
            addresses.clear()
        self._written = None
        if self._in_place is None:
            self._in_place = _stretches(args, self._kinds, self._wholes, CHECKED)
        carried = _stretches(args, self._kinds, self._wholes, (Kind.CARRIED,))
        used = Stretches([*self._in_place, *carried])
        self.where[0] = None if any(map(used.meet, carried)) else where
        return self.where[0] is not None

    def check_of(self, index: int) -> Callable[[Sequence[Any]], bool]:
        """Whether a copied input, whose address is not known, is clear."""
        addresses = self.copied[index]

        def clear(args: Sequence[Any]) -> bool:
            if self._written is None:
                self._written = Stretches(_stretches(args, self._kinds, self._wholes, _APART[Kind.COPIED]))
            if self._written.meet(_stretch(args[index], index, self._wholes)):
                return False
            if len(addresses) >= CLEARED_LIMIT:
                addresses.clear()
            addresses.add(args[index].data_ptr())
            return True

        return clear
