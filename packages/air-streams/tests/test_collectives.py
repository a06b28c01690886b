"""Collectives that ranks may start in different orders."""

from __future__ import annotations

import pytest
import torch
import torch.distributed._functional_collectives
from torch.fx import Graph

from air_streams import StreamPlan, errors, register_collective
from streams_programs import on_stream

ops = torch.ops.air_streams
reduce = torch.ops._c10d_functional.all_reduce.default


def plan_of(
    *, ordered: bool, streams: tuple[int, int] = (1, 2), groups: tuple[str, str] = ("tp", "tp")
) -> StreamPlan:
    graph = Graph()
    x = graph.placeholder("x")
    first = on_stream(graph, streams[0], (reduce, (x, "sum", groups[0]), {}))
    if ordered:
        on_stream(graph, streams[0], (ops.event_record.default, ("e",), {}))
        on_stream(graph, streams[1], (ops.event_wait.default, ("e",), {}))
    second = on_stream(graph, streams[1], (reduce, (x, "sum", groups[1]), {}))
    graph.output((first, second))
    return StreamPlan.of(graph, sync="off")


@pytest.mark.parametrize("groups", [("tp", "tp"), ("tp", "ep")])
def test_two_unordered_collectives_on_two_streams_can_deadlock(groups: tuple[str, str]) -> None:
    plan = plan_of(ordered=False, groups=groups)
    (finding,) = plan.deadlocks()
    assert (finding.groups, finding.kind) == (groups, "collective deadlock")
    assert all(group in finding.what for group in groups)
    assert finding in plan.check()


def test_collectives_in_order_or_on_one_stream_are_safe() -> None:
    assert plan_of(ordered=True).deadlocks() == ()
    assert plan_of(ordered=False, streams=(1, 1)).deadlocks() == ()


def test_auto_orders_them() -> None:
    graph = plan_of(ordered=False).nodes[0].graph
    plan = StreamPlan.of(graph, sync="auto")
    assert plan.deadlocks() == ()
    assert len(plan.sync_report.inserted) == 2
    assert "collective deadlock" in plan.sync_report.explain()


def test_an_operator_with_an_unusual_group_argument_can_be_registered_once() -> None:
    library = torch.library.Library("air_streams_test", "DEF")
    library.define("exchange(Tensor x, str ring) -> Tensor")
    op = torch.ops.air_streams_test.exchange.default
    graph = Graph()
    x = graph.placeholder("x")
    results = [on_stream(graph, stream, (op, (x, "ring0"), {})) for stream in (1, 2)]
    graph.output(tuple(results))
    assert StreamPlan.of(graph, sync="off").deadlocks() == ()
    register_collective(op, "ring")
    assert StreamPlan.of(graph, sync="off").deadlocks()[0].groups == ("ring0", "ring0")
    with pytest.raises(errors.InvalidArgument, match="already"):
        register_collective(op, "ring")
    with pytest.raises(errors.InvalidArgument, match="no argument 'loop'"):
        register_collective(torch.ops.aten.relu.default, "loop")
    with pytest.raises(errors.InvalidArgument, match="overload"):
        register_collective(torch.ops.aten.relu, "x")  # type: ignore[arg-type]  # the mistake under test


def test_a_norm_of_groups_is_no_collective() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    norm = torch.ops.aten.native_group_norm.default
    results = [on_stream(graph, stream, (norm, (x, None, None, 2, 4, 9, 2, 1e-5), {})) for stream in (1, 2)]
    graph.output(tuple(results))
    assert StreamPlan.of(graph, sync="off").deadlocks() == ()
