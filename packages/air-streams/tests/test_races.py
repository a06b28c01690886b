"""Races: the analysis against a judge that tries every schedule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import pytest
from torch.fx import Graph

from air_streams import StreamPlan
from streams_judge import is_correct
from streams_programs import Op, Program, aten, graph_of, on_stream, ops, random_chain, random_program

PARTS = 4  # of the programs of four operations, for workers to share
SAMPLE = 1_500
VERY_MANY = pytest.param(20_000, marks=pytest.mark.slow)


def races_are_right(program: Program, storages: int, *, elements: bool = False) -> bool:
    gm, _ = graph_of(program, storages, values=elements)
    found = StreamPlan.of(gm, sync="off").races()
    assert (not found) == is_correct(program, storages, elements=elements), (program, found)
    return not found


def every_program(length: int) -> Iterator[Program]:
    kinds = ("read", "write", "record", "wait")
    alphabet = [Op(stream, kind, target) for stream in (0, 1) for kind in kinds for target in (0, 1)]
    return itertools.product(alphabet, repeat=length)


def is_first_of_its_renamings(program: Program) -> bool:
    """Whether the program uses event 0 before event 1 and storage 0 before storage 1."""
    storages = [op.target for op in program if op.kind in ("read", "write")]
    events = [op.target for op in program if op.kind in ("record", "wait")]
    return not any(storages[:1] + events[:1])


def count_right_verdicts(programs: Iterable[Program]) -> int:
    """Compares every verdict with the judge's, sees both kinds of verdict, and counts them."""
    verdicts = [races_are_right(program, 2) for program in programs]
    assert any(verdicts)
    assert not all(verdicts)
    return len(verdicts)


@pytest.mark.parametrize("length", [0, 1])
def test_N05_fewer_than_two_operations_never_race(length: int) -> None:
    assert all(races_are_right(program, 2) for program in every_program(length))


@pytest.mark.parametrize("length", [2, 3])
def test_N05_the_verdict_is_right_for_every_program_of_two_streams_two_events_two_storages(
    length: int,
) -> None:
    assert count_right_verdicts(every_program(length)) == 16**length


@pytest.mark.slow
def test_N05_the_verdict_is_right_for_every_program_of_four_operations_up_to_names() -> None:
    kept = count_right_verdicts(filter(is_first_of_its_renamings, every_program(4)))
    assert kept == (16**4 + 2 * 8**4) // 4, (
        "a program that names only events, or only storages, has two renamings"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_N05_the_verdict_is_right_for_every_program_of_four_operations(part: int) -> None:
    programs = itertools.islice(every_program(4), part, None, PARTS)
    assert count_right_verdicts(programs) == 16**4 // PARTS


@pytest.mark.parametrize("programs", [SAMPLE, VERY_MANY])
def test_N05_the_verdict_is_right_for_random_programs(programs: int) -> None:
    source = random.Random(20260121)
    verdicts = []
    for number in range(programs):
        make = random_chain if number % 2 else random_program
        program = make(
            source, length=source.randint(2, 10), streams=3, events=4, storages=source.choice((1, 2, 3))
        )
        verdicts.append(races_are_right(program, 3))
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


@pytest.mark.parametrize("programs", [SAMPLE // 2, VERY_MANY])
def test_N05_slices_of_one_storage_race_only_where_they_share_bytes(programs: int) -> None:
    source = random.Random(7)
    verdicts = []
    for number in range(programs):
        make = random_chain if number % 2 else random_program
        program = make(source, length=source.randint(2, 9), streams=3, events=4, storages=1, slices=True)
        verdicts.append(races_are_right(program, 1, elements=True))
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9


def test_N05_a_write_that_nobody_sees_must_follow_the_work_that_allocated_its_storage() -> None:
    """The block of `made` may be that of `old`, which the entry stream reads before it makes `made`."""
    graph = Graph()
    x = graph.placeholder("x")
    old = graph.call_function(aten.mul.Tensor, (x, x))
    graph.call_function(aten.add.Tensor, (old, x))
    made = graph.call_function(aten.add.Tensor, (x, 1))
    unseen = on_stream(graph, 1, (aten.fill_.Scalar, (made, 2), {}))
    on_stream(graph, 1, (aten.fill_.Scalar, (made, 3), {}))
    graph.output((made,))
    races = StreamPlan.of(graph, sync="off").races()
    assert [(race.first, race.second) for race in races] == [(made, unseen)]


def test_N05_a_write_that_nobody_sees_to_an_input_may_come_at_any_time() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.fill_.Scalar, (x, 1))
    on_stream(graph, 1, (aten.fill_.Scalar, (x, 2), {}))
    graph.call_function(ops.event_record.default, ("a",))
    on_stream(graph, 1, (ops.event_wait.default, ("a",), {}))
    last = on_stream(graph, 1, (aten.fill_.Scalar, (x, 3), {}))
    graph.output(())
    races = StreamPlan.of(graph, sync="off").races()
    assert (first, last) not in [(race.first, race.second) for race in races]
    assert races == ()


def test_N05_of_two_conflicts_with_a_stream_the_later_one_is_found_whatever_storage_it_is_about() -> None:
    """The operator that made what is written comes first; the write to what is read comes after it."""
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    made = graph.call_function(aten.mul.Tensor, (x, x))
    written = graph.call_function(aten.add_.Scalar, (y, 1))
    second = on_stream(graph, 1, (aten.neg.out, (y,), {"out": made}))
    graph.output((made,))
    plan = StreamPlan.of(graph, sync="off")
    assert [(race.first, race.second) for race in plan.races()] == [(written, second)]
    assert StreamPlan.of(graph, sync="auto").races() == ()
