"""Races: the analysis against a judge that tries every schedule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from air_streams import StreamPlan
from streams_judge import is_correct
from streams_programs import Op, Program, graph_of, random_chain, random_program

FOUR = [(4, part, 4) for part in range(4)]  # programs of four operations, in parts that workers share


def races_are_right(program: Program, storages: int, *, elements: bool = False) -> bool:
    gm, _ = graph_of(program, storages, values=elements)
    found = StreamPlan.of(gm, sync="off").races()
    assert (not found) == is_correct(program, storages, elements=elements), (program, found)
    return not found


def every_program(length: int) -> Iterator[Program]:
    kinds = ("read", "write", "record", "wait")
    alphabet = [Op(stream, kind, target) for stream in (0, 1) for kind in kinds for target in (0, 1)]
    return itertools.product(alphabet, repeat=length)


@pytest.mark.parametrize(("length", "part", "parts"), [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1), *FOUR])
def test_N05_the_verdict_is_right_for_every_program_of_two_streams_two_events_two_storages(
    length: int, part: int, parts: int
) -> None:
    programs = itertools.islice(every_program(length), part, None, parts)
    verdicts = [races_are_right(program, 2) for program in programs]
    assert len(verdicts) == 16**length // parts
    if length >= 2:
        assert any(verdicts)
        assert not all(verdicts)


def test_N05_the_verdict_is_right_for_twenty_thousand_random_programs() -> None:
    source = random.Random(20260121)
    verdicts = []
    for number in range(20_000):
        make = random_chain if number % 2 else random_program
        program = make(
            source, length=source.randint(2, 10), streams=3, events=4, storages=source.choice((1, 2, 3))
        )
        verdicts.append(races_are_right(program, 3))
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


def test_N05_slices_of_one_storage_race_only_where_they_share_bytes() -> None:
    source = random.Random(7)
    verdicts = []
    for number in range(4_000):
        make = random_chain if number % 2 else random_program
        program = make(source, length=source.randint(2, 9), streams=3, events=4, storages=1, slices=True)
        verdicts.append(races_are_right(program, 1, elements=True))
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9
