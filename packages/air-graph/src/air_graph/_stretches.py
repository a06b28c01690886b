"""Stretches of memory that are sorted once, to be met by others: models and optimizers have hundreds of inputs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class Stretch(NamedTuple):
    """The memory of one input: first byte and the one after the last; the tensor is not held."""

    start: int
    end: int
    input: int


class Stretches:
    """Some stretches of memory, to be met by others."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        found = sorted(stretches)
        self._starts = [stretch.start for stretch in found]
        self._furthest: list[list[Stretch]] = [[]]
        """Of the first so many: the two that reach furthest."""
        for stretch in found:
            self._furthest.append(sorted([*self._furthest[-1], stretch], key=_end)[-2:])

    def meet(self, one: Stretch | None) -> bool:
        """Whether another input has a byte of this stretch."""
        if one is None:
            return False
        before = self._furthest[bisect_left(self._starts, one.end)]
        return any(other.end > one.start for other in before if other.input != one.input)


def _end(stretch: Stretch) -> int:
    return stretch.end
