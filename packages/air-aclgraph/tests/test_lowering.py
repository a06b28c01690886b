"""Several streams: the plan becomes calls of the runtime, and a missing wait shows."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_aclgraph import Executable, HostRuntime, compile_graph
from air_aclgraph.errors import Unsupported
from air_streams import StreamPlan


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
    return compile_graph(gm, [example, example], plan=plan, runtime=runtime)


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
    run = compile_graph(gm, [example, example])
    for _ in range(3):
        x = torch.randn(3, 3, device=device)
        torch.testing.assert_close(run(x, x)[0], (x + 1) * 2 + x @ x)
    assert run.resources.streams == 2


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


@pytest.mark.npu
def test_A44_core_limits_hold_inside_their_block_and_are_put_back() -> None:
    example = torch.randn(3, 3, device="npu")
    gm = make_fx(limited, tracing_mode="fake")(example)
    run = compile_graph(gm, [example])
    before = npu().get_stream_limit(npu().current_stream())
    for _ in range(3):
        torch.testing.assert_close(run(example)[0], (example + 1) * 2)
    assert npu().get_stream_limit(npu().current_stream()) == before
