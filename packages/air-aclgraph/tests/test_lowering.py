"""Several streams: the plan becomes calls of the runtime, and a missing wait shows."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from aclgraph_backend import settings, unpadded
from air_aclgraph import Executable, HostRuntime, compile_graph
from air_aclgraph.errors import AclGraphError, Unsupported
from air_fxpasses import Pipeline
from air_fxpasses.passes import ReinplaceInplaceable
from air_streams import ScopeIgnored, StreamPlan, scope
from air_streams.errors import StreamPriorityError


def npu() -> Any:
    """The device module of torch_npu."""
    return torch.get_device_module("npu")


ops = torch.ops.air_streams


def ordered(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    ops.event_record("a")
    ops.stream_enter("side")
    ops.event_wait("a")
    b = a * 2
    ops.record_stream(a, "side")
    ops.event_record("b")
    ops.stream_exit("side")
    c = y @ y
    ops.event_wait("b")
    return b + c, c


def unordered(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    for _ in range(4):
        a = a @ a * 0.1
    ops.stream_enter("side")
    b = a * 2
    ops.stream_exit("side")
    return b.clone(), y + 1


def compiled(function: object, device: str = "cpu", runtime: HostRuntime | None = None) -> Executable:
    example = torch.randn(3, 3, device=device)
    gm = make_fx(function, tracing_mode="fake")(example, example.clone())  # type: ignore[arg-type]  # any function
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = StreamPlan.of(gm, sync="check")
    return unpadded(gm, [example, example], plan=plan, runtime=runtime)


def test_two_streams_compute_what_one_does(device: str) -> None:
    run = compiled(ordered, device)
    for _ in range(4):
        x, y = torch.randn(3, 3, device=device), torch.randn(3, 3, device=device)
        total, product = run(x, y)
        torch.testing.assert_close(total, (x + 1) * 2 + y @ y)
        torch.testing.assert_close(product, y @ y)
    plan = run.explain()["plan"]
    assert plan["streams"] == 2
    assert plan["events"] >= 2


def test_every_legal_order_gives_the_same_when_waits_are_there() -> None:
    run = compiled(ordered, runtime=HostRuntime(order="shuffled"))
    for _ in range(40):
        x, y = torch.randn(3, 3), torch.randn(3, 3)
        torch.testing.assert_close(run(x, y)[0], (x + 1) * 2 + y @ y)


def test_N05_a_missing_wait_gives_a_wrong_number_in_some_legal_order() -> None:
    run = compiled(unordered, runtime=HostRuntime(order="shuffled", seed=1))
    wrong = 0
    for _ in range(60):
        x = torch.randn(3, 3)
        a = x + 1
        for _ in range(4):
            a = a @ a * 0.1
        wrong += not torch.allclose(run(x, x)[0], a * 2)
    assert wrong


def test_stream_operators_without_a_plan_get_one(device: str) -> None:
    example = torch.randn(3, 3, device=device)
    gm = make_fx(ordered, tracing_mode="fake")(example, example.clone())
    run = unpadded(gm, [example, example])
    for _ in range(3):
        x = torch.randn(3, 3, device=device)
        torch.testing.assert_close(run(x, x)[0], (x + 1) * 2 + x @ x)
    assert run.resources.streams == 2


def test_A41_a_pass_may_put_work_on_another_stream_with_scope_record_and_wait(device: str) -> None:
    example = torch.randn(3, 3, device=device)
    gm = make_fx(lambda x, y: ((x + 1) * 2 + y @ y,), tracing_mode="fake")(example, example.clone())
    first, total = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    (scaled,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    with gm.graph.inserting_after(first):
        marker = gm.graph.call_function(ops.record.default)
        marker.meta["val"] = torch.empty(0)
    with gm.graph.inserting_before(scaled):
        gm.graph.call_function(ops.stream_enter.default, ("side", 0))
        gm.graph.call_function(ops.wait.default, ([marker],))
    with gm.graph.inserting_after(scaled):
        gm.graph.call_function(ops.stream_exit.default, ("side",))
    with gm.graph.inserting_before(total):
        gm.graph.call_function(ops.record_stream.default, (first, "side"))
        gm.graph.call_function(ops.wait.default, ([scaled],))
    gm.recompile()
    run = unpadded(gm, [example, example])
    for _ in range(4):
        x, y = torch.randn(3, 3, device=device), torch.randn(3, 3, device=device)
        torch.testing.assert_close(run(x, y)[0], (x + 1) * 2 + y @ y)
    plan = run.explain()["plan"]
    assert plan["streams"] == 2
    assert plan["events"] >= 2


def read_beside(x: Tensor, ordered: bool) -> tuple[Tensor, ...]:
    """`a` is read on a stream of its own, then its memory could take `a.relu()`."""
    a = x + 1
    ops.event_record("made")
    ops.stream_enter("side")
    ops.event_wait("made")
    b = a * 2
    ops.event_record("read")
    ops.stream_exit("side")
    if ordered:
        ops.event_wait("read")
    c = a.relu()
    ops.event_wait("read")
    return b, c


@pytest.mark.parametrize("ordered", [True, False])
def test_A43_an_event_after_the_last_reader_permits_the_write_in_place_and_its_absence_forbids_it(
    ordered: bool,
) -> None:
    example = torch.randn(3, 3)
    gm = make_fx(partial(read_beside, ordered=ordered), tracing_mode="fake")(example)
    report = Pipeline([ReinplaceInplaceable()], ordering=StreamPlan.of(gm, sync="off").ordering).run(
        gm, [example]
    )
    written = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.relu_.default)
    assert bool(written) == ordered
    assert ordered or any("on another stream at the same time" in r.reason for r in report.refusals)
    run = compile_graph(gm, [example], runtime=HostRuntime(order="shuffled"))
    for _ in range(20):
        x = torch.randn(3, 3)
        for found, expected in zip(run(x), ((x + 1) * 2, (x + 1).relu()), strict=True):
            torch.testing.assert_close(found, expected)


def limited(x: Tensor) -> tuple[Tensor, ...]:
    ops.core_limit_enter(4, 8)
    y = x + 1
    ops.core_limit_exit()
    return (y * 2,)


@pytest.mark.parametrize("again", [False, True])
def test_core_limits_are_refused_where_there_are_no_cores(again: bool) -> None:
    example = torch.randn(3, 3)
    gm = make_fx(limited, tracing_mode="fake")(example)
    with pytest.raises(Unsupported, match="limit_core_num on the host runtime") as caught:
        compile_graph(gm, [example])
    assert caught.value.option == "limit_core_num"


@pytest.mark.npu("only CANN limits the cores of a stream")
def test_A44_core_limits_hold_inside_their_block_and_are_put_back() -> None:
    example = torch.randn(3, 3, device="npu")
    gm = make_fx(limited, tracing_mode="fake")(example)
    run = compile_graph(gm, [example])
    before = npu().get_stream_limit(npu().current_stream())
    for _ in range(3):
        torch.testing.assert_close(run(example)[0], (example + 1) * 2)
    assert npu().get_stream_limit(npu().current_stream()) == before


LEVELS: list[int] = []


@torch.library.custom_op("air_aclgraph_test::level", mutates_args=())
def level(x: Tensor) -> Tensor:
    """Notes the level of determinism it is captured with."""
    LEVELS.append(npu()._get_deterministic_level())
    return x + 1


level.register_fake(torch.empty_like)


def graded(x: Tensor) -> tuple[Tensor, ...]:
    x = level(x)
    with scope.deterministic(2):
        x = level(x)
        with scope.deterministic(0):
            x = level(x)
        x = level(x)
    return (level(x),)


@pytest.mark.npu("levels of determinism are torch_npu's")
def test_A45_operators_are_captured_with_the_level_of_their_scope_and_the_process_keeps_its_own() -> None:
    example = torch.zeros(3, device="npu")
    gm = make_fx(graded, tracing_mode="fake")(example)
    LEVELS.clear()
    run = compile_graph(gm, [example], settings=settings("npu", air__warmup=0))
    before = npu()._get_deterministic_level()
    for number in range(3):
        assert run(torch.full((3,), float(number), device="npu"))[0].tolist() == [number + 5.0] * 3
    assert [before, 2, 0, 2, before] == LEVELS
    assert npu()._get_deterministic_level() == before


@pytest.mark.npu("levels of determinism are torch_npu's")
def test_A45_a_capture_that_fails_inside_a_scope_puts_the_level_back() -> None:
    def fails(x: Tensor) -> tuple[Tensor, ...]:
        with scope.deterministic(2):
            return (torch.ops.aten.nonzero(x),)

    example = torch.ones(3, device="npu")
    gm = torch.fx.symbolic_trace(fails)
    before = npu()._get_deterministic_level()
    run = compile_graph(gm, [example], settings=settings("npu", air__warmup=0))
    with pytest.raises(AclGraphError):
        run(example)
    assert npu()._get_deterministic_level() == before


def test_a_scope_of_determinism_is_ignored_with_a_warning_where_there_are_no_levels() -> None:
    example = torch.zeros(3)

    def body(x: Tensor) -> tuple[Tensor, ...]:
        with scope.deterministic(1):
            return (x + 1,)

    gm = make_fx(body, tracing_mode="fake")(example)
    with pytest.warns(UserWarning, match="on Ascend NPUs only.*it is ignored"):
        run = compile_graph(gm, [example])
    assert run(example)[0].tolist() == [1.0] * 3


def test_S19_a_priority_that_cannot_be_had_is_ignored_with_a_warning_or_an_error_by_option(
    device: str,
) -> None:
    def ranked(x: Tensor) -> tuple[Tensor, ...]:
        with scope.npu_stream_switch("ranked in lowering", 3):
            y = (x + 1) * 2
        return (y,)

    example = torch.randn(3, 3, device=device)
    gm = make_fx(ranked, tracing_mode="fake")(example)
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = f'  File "{__file__}", line 7, in ranked\n    with npu_stream_switch():'
    asked = settings(device)
    with pytest.warns(
        ScopeIgnored, match=r"the priority is ignored: .*'ranked in lowering' asks for priority 3"
    ) as told:
        run = compile_graph(gm, [example], settings=asked)
    assert [(warning.filename, warning.lineno) for warning in told] == [(__file__, 7)]
    for _ in range(3):
        torch.testing.assert_close(run(example)[0], (example + 1) * 2)
    strict = settings(device, air__stream_priority="error")
    with pytest.raises((Unsupported, StreamPriorityError), match=r"priority 3|asked for 3"):
        compile_graph(gm, [example], settings=strict)(example)
