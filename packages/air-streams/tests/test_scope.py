"""Blocks of a model: streams by tag, priorities, core limits, and waiting for a tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Graph

from air_streams import LimitCores, RestoreCores, StreamPlan, errors, ops, scope
from streams_models import compiled


def plan_of(function: Any, *args: Any) -> StreamPlan:
    return compiled(function, *args, sync="off")[1].plans[0]


def work(plan: StreamPlan) -> list[tuple[str, str]]:
    """Operator and stream of each computing node."""
    return [
        (str(node.target), plan.stream_of(node).tag)
        for node in plan.nodes
        if str(node.target).startswith("aten.")
    ]


def test_S19_blocks_nest_and_the_same_tag_is_the_same_stream() -> None:
    def nested(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with scope.npu_stream_switch("1"):
            a = x + 1
            with scope.npu_stream_switch("2"):
                b = x * 2
            c = x - 3
        with scope.npu_stream_switch("1"):
            d = x / 4
        return a, b, c, d

    plan = plan_of(nested, torch.ones(2))
    assert [stream for _, stream in work(plan)] == ["1", "2", "1", "1"]
    assert len(plan.resources.streams) == 3


def test_W14_the_tag_default_is_the_entry_stream() -> None:
    def back(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with scope.npu_stream_switch("1"):
            a = x + 1
            with scope.npu_stream_switch("default"):
                b = x * 2
        ops.npu_record_tagged_stream(a, "default")
        return a, b

    plan = plan_of(back, torch.ones(2))
    assert work(plan) == [("aten.add.Tensor", "1"), ("aten.mul.Tensor", "default")]
    assert plan.stream_of(next(n for n in plan.nodes if "mul" in n.name)) == plan.entry


def prioritised(*priorities: int) -> Graph:
    """Work on stream "fast", entered once with each priority."""
    graph = Graph()
    x = graph.placeholder("x")
    for priority in priorities:
        graph.call_function(torch.ops.air_streams.stream_enter.default, ("fast", priority))
        x = graph.call_function(torch.ops.aten.relu.default, (x,))
        graph.call_function(torch.ops.air_streams.stream_exit.default, ("fast",))
    graph.output((x,))
    return graph


@pytest.mark.parametrize("priorities", [(-1,), (-1, 0), (0, -1), (-1, -1)])
def test_the_priority_of_a_stream_is_in_the_plan_and_zero_means_whichever_it_has(
    priorities: tuple[int, ...],
) -> None:
    plan = StreamPlan.of(prioritised(*priorities))
    assert [(use.stream.tag, use.priority) for use in plan.resources.streams] == [
        ("default", 0),
        ("fast", -1),
    ]


def test_two_priorities_of_one_tag_are_refused_by_name() -> None:
    with pytest.raises(errors.StreamPriorityError, match=r"'fast'.*-1.*-2"):
        StreamPlan.of(prioritised(-1, -2))


@pytest.mark.parametrize(
    ("tag", "priority"), [("", 0), (7, 0), (None, 0), ("  ", 0), ("x", "high"), ("x", True)]
)
def test_a_tag_is_a_string_and_a_priority_a_number(tag: Any, priority: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        scope.npu_stream_switch(tag, priority)


def test_a_core_limit_is_inherited_by_streams_switched_to_inside_and_put_back() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    calls = torch.ops.air_streams
    graph.call_function(calls.core_limit_enter.default, (4, 8))
    graph.call_function(calls.stream_enter.default, ("1",))
    graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.call_function(calls.stream_exit.default, ("1",))
    graph.call_function(calls.core_limit_exit.default, ())
    graph.output(())
    plan = StreamPlan.of(graph)
    limits = [
        (type(step), step.stream.tag)
        for node in plan.nodes
        for step in plan.actions(node).before
        if isinstance(step, (LimitCores, RestoreCores))
    ]
    assert limits == [
        (LimitCores, "default"),
        (LimitCores, "1"),
        (RestoreCores, "1"),
        (RestoreCores, "default"),
    ]


@pytest.mark.parametrize(
    ("aicore", "vectorcore"), [(0, 1), (-1, 1), (1, -1), (1.5, 1), (True, 1), (1, "two")]
)
def test_core_numbers_are_checked(aicore: Any, vectorcore: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        scope.limit_core_num(aicore, vectorcore)


def test_waiting_for_a_tensor_orders_what_follows_after_its_computation() -> None:
    def waits(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with scope.npu_stream_switch("1"):
            a = x + 1
        b = scope.npu_wait_tensor(x, a)
        return a, b * a

    plan = plan_of(waits, torch.ones(2))
    assert plan.check() == ()
    add, mul = (node for node in plan.nodes if str(node.target).startswith("aten."))
    assert plan.ordering.happens_before(add, mul)


def test_waiting_for_something_else_than_a_tensor_is_an_error() -> None:
    with pytest.raises(errors.InvalidArgument, match="dependency"):
        scope.npu_wait_tensor(torch.ones(1), 3)  # type: ignore[arg-type]  # the mistake under test
