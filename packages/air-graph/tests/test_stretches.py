"""Stretches of memory meet where they have a byte in common, and none meets itself."""

from __future__ import annotations

import random

from air_graph import Stretch, Stretches


def drawn(chance: random.Random, count: int) -> list[Stretch]:
    starts = [chance.randrange(60) for _ in range(count)]
    return [Stretch(start, start + chance.randrange(12), place) for place, start in enumerate(starts)]


def test_a_stretch_meets_what_has_one_of_its_bytes() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        stretches = drawn(chance, chance.randrange(1, 9))
        known = Stretches(stretches)
        for one in (*stretches, Stretch(20, 30, -1)):
            others = [other for other in stretches if other.input != one.input]
            assert known.meet(one) == any(a.end > one.start and a.start < one.end for a in others)


def test_what_has_no_memory_meets_nothing() -> None:
    assert not Stretches([Stretch(0, 8, 0)]).meet(None)
