"""The plan: streams, order, fork and join, and what an executor is told."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import Graph, GraphModule, Node

from air_streams import EventId, Record, Step, StreamId, StreamPlan, Wait, errors, scope
from streams_programs import Op, graph_of, on_stream, random_program, reachable

ops = torch.ops.air_streams
aten = torch.ops.aten


def test_the_clocks_order_exactly_what_streams_and_waits_order() -> None:
    source = random.Random(12)
    for _ in range(500):
        program = random_program(source, length=12, streams=4, events=3, storages=2)
        graph, nodes = graph_of(program, 2)
        ordering = StreamPlan.of(graph, sync="off").ordering
        paths = reachable(program)
        for a, first in enumerate(nodes):
            for b, second in enumerate(nodes):
                assert ordering.happens_before(first, second) == ((a, b) in paths)
                expected = a != b and (a, b) not in paths and (b, a) not in paths
                assert ordering.concurrent(first, second) == expected


def steps(plan: StreamPlan, *, with_work: bool = False) -> list[tuple[Node, Step | None]]:
    """All steps in the order in which an executor performs them; None stands for the node's own work."""
    found: list[tuple[Node, Step | None]] = []
    for node in plan.nodes:
        actions = plan.actions(node)
        own = [None] if with_work and actions.runs else []
        found.extend((node, step) for step in (*actions.before, *own, *actions.after))
    return found


def test_every_side_stream_is_forked_from_the_entry_stream_and_joined_again() -> None:
    """What a capture demands, by following the steps: no stream starts outside, none is left over at the end."""
    source = random.Random(13)
    for _ in range(500):
        program = random_program(source, length=10, streams=4, events=3, storages=2)
        plan = StreamPlan.of(graph_of(program, 2)[0], sync="off")
        inside = {plan.entry}
        done: dict[StreamId, set[StreamId]] = {plan.entry: set()}
        at_record: dict[tuple[EventId, int], set[StreamId]] = {}
        for node, step in steps(plan, with_work=True):
            stream = plan.stream_of(node) if step is None else step.stream
            known = done.setdefault(stream, set())
            if isinstance(step, Wait):
                inside.add(stream)
                known |= at_record[step.event, step.version]
            elif isinstance(step, Record):
                at_record[step.event, step.version] = known | {stream}
            else:
                for others in done.values():
                    others.discard(stream)
            assert stream in inside, "work before the fork"
        assert done[plan.entry] >= inside - {plan.entry}, "work after the last join"


def test_a_fork_is_added_only_where_nothing_orders_a_stream_after_the_entry() -> None:
    graph, _ = graph_of((Op(0, "record", 0), Op(1, "wait", 0), Op(1, "read", 0), Op(2, "read", 0)), 1)
    plan = StreamPlan.of(graph, sync="off")
    forks = [step for _, step in steps(plan) if isinstance(step, Wait) and step.event.origin == "fork"]
    assert [fork.stream.tag for fork in forks] == ["2"]
    joins = [step for _, step in steps(plan) if isinstance(step, Wait) and step.event.origin == "join"]
    assert [join.event.name for join in joins] == ["join:1", "join:2"]


def test_a_join_that_another_join_implies_is_left_out() -> None:
    program = (Op(1, "read", 0), Op(1, "record", 0), Op(2, "wait", 0), Op(2, "read", 0))
    plan = StreamPlan.of(graph_of(program, 1)[0], sync="off")
    joins = [step for _, step in steps(plan) if isinstance(step, Wait) and step.event.origin == "join"]
    assert [join.event.name for join in joins] == ["join:2"]


def test_a_join_of_the_user_is_enough() -> None:
    program = (Op(1, "read", 0), Op(1, "record", 0), Op(0, "wait", 0))
    plan = StreamPlan.of(graph_of(program, 1)[0], sync="off")
    assert not [step for _, step in steps(plan) if isinstance(step, Wait) and step.event.origin == "join"]
    assert plan.redundant() == ()


def test_a_graph_without_streams_has_one_stream_and_no_steps() -> None:
    plan = StreamPlan.of(graph_of((Op(0, "read", 0), Op(0, "write", 0)), 1)[0])
    assert not plan.is_multi_stream
    assert steps(plan) == []
    assert plan.resources.events == ()
    assert [use.stream for use in plan.resources.streams] == [plan.entry]


def test_an_event_recorded_twice_is_waited_for_by_version() -> None:
    program = (Op(0, "record", 7), Op(1, "wait", 7), Op(0, "write", 0), Op(0, "record", 7), Op(1, "wait", 7))
    plan = StreamPlan.of(graph_of(program, 1)[0], sync="off")
    waits = [step for _, step in steps(plan) if isinstance(step, Wait) and step.event.name == "7"]
    assert [wait.version for wait in waits] == [0, 1]


def test_views_and_stream_operators_are_told_apart_from_work() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(ops.stream_enter.default, ("1",))
    view = graph.call_function(aten.view.default, (x, [-1]))
    leave = graph.call_function(ops.stream_exit.default, ("1",))
    graph.output((view,))
    plan = StreamPlan.of(graph)
    assert plan.actions(view).runs
    assert not plan.actions(leave).runs
    assert not plan.is_multi_stream, "a view is the host's: the stream has nothing to do"


def test_a_graph_break_inside_a_scope_is_refused_with_the_users_line() -> None:
    graph = Graph()
    enter = graph.call_function(ops.stream_enter.default, ("1",))
    enter.meta["stack_trace"] = '  File "model.py", line 5, in forward\n    with npu_stream_switch("1"):'
    graph.output(())
    with pytest.raises(errors.UnbalancedScope, match=r"model\.py:5"):
        StreamPlan.of(graph)


@pytest.mark.parametrize("order", ["exit first", "wrong tag", "limit across"])
def test_crossed_scopes_in_a_graph_are_refused(order: str) -> None:
    graph = Graph()
    calls: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {
        "exit first": [(ops.stream_exit, ("1",))],
        "wrong tag": [(ops.stream_enter, ("1",)), (ops.stream_exit, ("2",))],
        "limit across": [
            (ops.stream_enter, ("1",)),
            (ops.core_limit_enter, (1, 1)),
            (ops.stream_exit, ("1",)),
        ],
    }
    for packet, args in calls[order]:
        graph.call_function(packet.default, args)
    graph.output(())
    with pytest.raises(errors.UnbalancedScope):
        StreamPlan.of(graph)


def test_keyword_arguments_of_the_operators_mean_the_same() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(ops.stream_enter.default, (), {"priority": -1, "tag": "1"})
    node = graph.call_function(aten.relu.default, (x,))
    graph.call_function(ops.stream_exit.default, (), {"tag": "1"})
    graph.output((node,))
    assert StreamPlan.of(graph).stream_of(node).tag == "1"


def test_a_plan_grows_linearly() -> None:
    """By Python calls, which no other process disturbs; seconds are the benchmark's."""

    def calls(length: int) -> int:
        program = random_program(random.Random(1), length=length, streams=8, events=8, storages=length // 4)
        graph, _ = graph_of(program, length // 4)
        count = 0

        def counter(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(counter)
        try:
            plan = StreamPlan.of(graph, sync="off")
            plan.check()
            plan.redundant()
            plan.actions(plan.nodes[-1])
        finally:
            sys.setprofile(None)
        return count

    assert calls(4_000) <= 12 * calls(400)


def test_stream_code_inside_a_branch_is_refused_with_the_users_line() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("inner"):
            return x + 1

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, branch, lambda x: x - 1, (x,))
        return result

    def compiler(gm: GraphModule, example_inputs: list[Any]) -> GraphModule:
        StreamPlan.of(gm)
        return gm

    not_normalised = aot_autograd(fw_compiler=compiler)
    with pytest.raises(Exception, match="stream code of its own") as caught:
        torch.compile(model, backend=not_normalised, fullgraph=True)(torch.ones(2))
    assert "test_plan.py" in str(caught.value)


def test_of_a_node_added_after_the_plan_nothing_is_known() -> None:
    graph, (first, last) = graph_of((Op(0, "write", 0), Op(0, "read", 0)), 1)
    ordering = StreamPlan.of(graph).ordering
    with graph.inserting_before(last):
        added = graph.call_function(aten.relu.default, (first,))
    assert ordering.happens_before(first, last)
    assert ordering.concurrent(added, last)
    assert not ordering.happens_before(first, added)
    assert not ordering.concurrent(added, added)


def test_what_waits_for_another_stream_is_ordered_and_not_on_its_stream() -> None:
    graph, nodes = graph_of((Op(0, "write", 0), Op(0, "record", 0), Op(1, "wait", 0), Op(1, "read", 0)), 1)
    ordering = StreamPlan.of(graph, sync="off").ordering
    first, last = nodes[0], nodes[3]
    assert ordering.happens_before(first, last)
    assert not ordering.same_stream(first, last)
    assert ordering.same_stream(first, nodes[1])


def test_the_copies_that_a_training_step_begins_with_come_before_the_fork() -> None:
    """AOTAutograd copies inputs that are written; the program does not know of it, and cannot wait for it."""
    graph = Graph()
    x = graph.placeholder("x")
    copied = graph.call_function(aten.clone.default, (x,))
    used = on_stream(graph, 1, (aten.add.Tensor, (copied, x), {}))
    graph.output((used,))
    plan = StreamPlan.of(graph, sync="off")
    assert plan.check() == ()
    assert plan.ordering.happens_before(copied, used)
    order = steps(plan, with_work=True)
    fork = next(number for number, (_, step) in enumerate(order) if isinstance(step, Record))
    assert order.index((copied, None)) < fork < order.index((used, None))


def test_a_copy_that_the_program_makes_itself_is_work_like_any_other() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    copied = graph.call_function(aten.clone.default, (x,))
    copied.meta["stack_trace"] = '  File "model.py", line 3, in forward\n    y = x.clone()'
    graph.output((on_stream(graph, 1, (aten.add.Tensor, (copied, x), {})),))
    assert [finding.kind for finding in StreamPlan.of(graph, sync="off").check()] == ["race"]


def test_a_copy_into_an_input_comes_after_the_join_also_where_a_view_of_a_result_follows_it() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    added = on_stream(graph, 1, (aten.add.Tensor, (x, x), {}))
    copied = graph.call_function(aten.copy_.default, (x, added))
    graph.output((graph.call_function(aten.slice.Tensor, (added, 0, 0, 2)),))
    plan = StreamPlan.of(graph, sync="off")
    assert plan.check() == ()
    assert plan.ordering.happens_before(added, copied)
