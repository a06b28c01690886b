"""`debug.deadlock_check` stops a compilation before a hang can happen."""

from __future__ import annotations

import pytest
import torch
import torch.distributed._functional_collectives
from torch.fx import Graph, GraphModule

from air_backend import CompilerConfig
from air_backend._deadlocks import refuse_deadlocks
from air_config import Context, Settings, resolve
from air_streams import StreamPlan
from air_streams.errors import StreamCheckError

ops = torch.ops.air_streams
reduce = torch.ops._c10d_functional.all_reduce.default


def plan_of(*, ordered: bool) -> StreamPlan:
    """Two collectives of one group on two streams."""
    graph = Graph()
    x = graph.placeholder("x")
    results = []
    for tag, event in (("1", ops.event_record.default), ("2", ops.event_wait.default)):
        graph.call_function(ops.stream_enter.default, (tag, 0))
        if ordered and tag == "2":
            graph.call_function(event, ("e",))
        results.append(graph.call_function(reduce, (x, "sum", "tp")))
        if ordered and tag == "1":
            graph.call_function(event, ("e",))
        graph.call_function(ops.stream_exit.default, (tag,))
    graph.output(tuple(results))
    return StreamPlan.of(GraphModule({}, graph), sync="off")


def settings(*, check: bool) -> Settings:
    config = CompilerConfig()
    config.mode = "npugraph_ex"
    config.debug.deadlock_check = check
    return resolve(config, Context(device="cpu")).check()


def test_A57_G13_collectives_that_no_event_orders_are_refused_with_the_wait_to_add() -> None:
    with pytest.raises(StreamCheckError, match="wait for each other for ever") as caught:
        refuse_deadlocks(plan_of(ordered=False), settings(check=True))
    assert "record an event after all_reduce_default and wait for it before all_reduce_default_1" in str(
        caught.value
    )


def test_A57_G13_ordered_collectives_pass_and_without_the_option_nothing_is_refused() -> None:
    refuse_deadlocks(plan_of(ordered=True), settings(check=True))
    refuse_deadlocks(plan_of(ordered=False), settings(check=False))


def test_the_check_is_part_of_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    from air_backend import _compile

    asked: list[bool] = []
    monkeypatch.setattr(
        _compile, "refuse_deadlocks", lambda plan, given: asked.append(given.debug.deadlock_check)
    )
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: [x + 1], tracing_mode="fake")(torch.randn(2))
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.deadlock_check = True
    _compile.compile_aten(gm, [torch.randn(2)], config)
    assert asked == [True]
