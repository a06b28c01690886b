"""Training: the forward keeps its stream code, the backward gets none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from air_streams import STREAM_OPS, drop_forward_copies, normalize, ops, scope

event = ops.npu_create_tagged_event("training")


def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x + 1
    marker = ops.record()
    ops.npu_tagged_event_record(event)
    with scope.npu_stream_switch("1"):
        ops.npu_tagged_event_wait(event)
        ops.wait([marker, y])
        z = torch.mm(y, w)
        ops.npu_record_tagged_stream(y, "1")
        ops.npu_tagged_event_record(event)
    ops.npu_tagged_event_wait(event)
    return z * 2


def boxed(gm: GraphModule) -> Callable[[list[Any]], Any]:
    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return gm(*given)

    call._boxed_call = True  # type: ignore[attr-defined]  # the mark AOTAutograd looks for
    return call


def stream_ops(gm: GraphModule) -> list[str]:
    return [node.target.name().split("::")[1] for node in gm.graph.nodes if node.target in STREAM_OPS]


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_backward_graph_has_no_stream_code_and_the_gradients_equal_eager(dynamic: bool) -> None:
    backwards: list[GraphModule] = []

    def compile_backward(gm: GraphModule, _: list[Any]) -> Callable[..., Any]:
        assert drop_forward_copies(gm) > 0
        backwards.append(gm)
        return boxed(gm)

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        normalize(gm)
        made: Callable[..., Any] = aot_autograd(
            fw_compiler=lambda g, _: boxed(g), bw_compiler=compile_backward
        )(gm, example_inputs)
        return made

    torch._dynamo.reset()
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    torch.compile(forward, backend=backend, fullgraph=True, dynamic=dynamic)(x, w).sum().backward()
    got, w.grad = w.grad, None
    forward(x, w).sum().backward()
    torch.testing.assert_close(got, w.grad)
    (gm,) = backwards
    assert stream_ops(gm) == []
    assert drop_forward_copies(gm) == 0


@pytest.mark.parametrize("normalized", [True, False])
def test_the_sites_keep_equal_calls_apart_where_the_partitioner_merges_them(normalized: bool) -> None:
    forwards: list[GraphModule] = []

    def compile_forward(gm: GraphModule, _: list[Any]) -> Callable[..., Any]:
        forwards.append(gm)
        return boxed(gm)

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        if normalized:
            normalize(gm)
        made: Callable[..., Any] = aot_autograd(
            fw_compiler=compile_forward, partition_fn=min_cut_rematerialization_partition
        )(gm, example_inputs)
        return made

    torch._dynamo.reset()
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    torch.compile(forward, backend=backend, fullgraph=True)(x, w)
    kept = ["record", "event_record", "stream_enter", "event_wait", "wait", "record_stream"]
    merged = [*kept, "stream_exit"]
    assert stream_ops(forwards[0]) == (
        [*kept, "event_record", "stream_exit", "event_wait"] if normalized else merged
    )
