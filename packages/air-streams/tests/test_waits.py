"""Waits without need, without a record, and in a circle."""

from __future__ import annotations

import random

import torch
from torch.fx import Graph

from air_streams import Awaited, StreamPlan
from streams_programs import WORK, Op, Program, graph_of, random_program, reachable


def plan_of(*program: Op) -> StreamPlan:
    return StreamPlan.of(graph_of(program, 2)[0], sync="off")


def work_order(program: Program) -> set[tuple[int, int]]:
    """Which work comes before which other work, records standing for the work a later wait could need."""
    ends = [n for n, op in enumerate(program) if op.kind in (*WORK, "record")]
    return {(a, b) for a, b in reachable(program) if a in ends and b in ends}


def without(program: Program, number: int) -> Program:
    """The program with a wait turned into a wait for an event nobody records."""
    gone = Op(program[number].stream, "wait", 99)
    return (*program[:number], gone, *program[number + 1 :])


def test_a_redundant_wait_can_be_removed_and_no_other_can() -> None:
    source = random.Random(21)
    flagged, kept = 0, 0
    for _ in range(1_500):
        program = random_program(source, length=10, streams=3, events=3, storages=2)
        # The caller reads on the entry stream afterwards: that is what a last wait there is for.
        program = (*program, Op(0, "read", 0))
        graph, nodes = graph_of(program, 2)
        plan = StreamPlan.of(graph, sync="off")
        redundant = {nodes.index(finding.second) for finding in plan.redundant()}
        met = {n for n, node in enumerate(nodes) if program[n].kind == "wait"} - {
            nodes.index(finding.first) for finding in plan.unmet()
        }
        less = program
        for number in redundant:
            less = without(less, number)
            flagged += 1
        assert work_order(less) == work_order(program), "all of them can go together"
        for number in met - redundant:
            kept += 1
            followed = any(
                op.stream == program[number].stream for op in program[number + 1 :] if op.kind != "wait"
            )
            if followed:
                assert work_order(without(less, number)) != work_order(program), (program, number)
    assert flagged > 100
    assert kept > 100


def test_a_wait_for_the_own_stream_is_redundant() -> None:
    (finding,) = plan_of(Op(1, "record", 0), Op(1, "wait", 0), Op(1, "read", 0)).redundant()
    assert "same stream" in finding.what
    assert "remove the wait" in finding.fix


def test_the_second_of_two_equal_waits_or_the_first_is_redundant_but_not_both() -> None:
    program = (Op(0, "write", 0), Op(0, "record", 0), Op(1, "wait", 0), Op(1, "wait", 0), Op(1, "read", 0))
    assert len(plan_of(*program).redundant()) == 1


def test_a_last_wait_of_the_entry_stream_is_the_users_join_and_stays() -> None:
    assert plan_of(Op(1, "read", 0), Op(1, "record", 0), Op(0, "wait", 0)).redundant() == ()


def test_W12_a_wait_before_its_record_is_reported_and_orders_nothing() -> None:
    program = (Op(1, "wait", 0), Op(1, "read", 0), Op(0, "write", 0), Op(0, "record", 0))
    plan = plan_of(*program)
    (finding,) = plan.unmet()
    assert finding.recorded_later
    assert "before it is recorded" in finding.what
    assert "move the record" in finding.fix
    assert [race.kind for race in plan.races()] == ["race"]


def test_a_wait_for_an_event_that_is_never_recorded_is_reported() -> None:
    (finding,) = plan_of(Op(1, "wait", 3), Op(1, "read", 0)).check()
    assert finding.kind == "unsatisfied wait"
    assert "never recorded" in finding.what


def test_two_streams_that_wait_for_each_other_are_a_cycle() -> None:
    program = (Op(0, "wait", 0), Op(1, "wait", 1), Op(0, "record", 1), Op(1, "record", 0))
    plan = plan_of(*program)
    (cycle,) = plan.cycles()
    assert {node.name for node in cycle.cycle} >= {"event_wait_default", "event_record_default"} or len(
        cycle.cycle
    ) >= 4
    assert "->" in cycle.what
    assert cycle in plan.check()


def test_a_late_record_alone_is_no_cycle() -> None:
    assert plan_of(Op(0, "wait", 0), Op(1, "record", 0)).cycles() == ()


def test_a_wait_for_a_later_record_of_its_own_stream_is_a_cycle() -> None:
    (cycle,) = plan_of(Op(0, "wait", 0), Op(0, "record", 0)).cycles()
    assert cycle.first_stream == cycle.second_stream


def test_what_comes_from_before_the_call_is_told_to_whoever_calls_the_graph() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    calls = torch.ops.air_streams
    graph.call_function(calls.event_wait.default, ("before",))
    graph.call_function(calls.event_record.default, ("inside",))
    graph.call_function(calls.event_wait.default, ("inside",))
    made = graph.call_function(torch.ops.aten.neg.default, (x,))
    graph.call_function(calls.wait.default, ([made],))
    output = graph.output((made,))
    inside = StreamPlan.of(graph, sync="off").awaited
    assert inside == Awaited(events=("before",), given=False)
    with graph.inserting_before(output):
        graph.call_function(calls.wait.default, ([x],))
    assert StreamPlan.of(graph, sync="off").awaited == Awaited(events=("before",), given=True)
