"""Scopes of a model become attributes of Ascend IR, waits become control edges, events are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from air_geir import compile_graph, lower
from air_geir.errors import UnsupportedGraphError
from air_geir.ir import Graph, Node
from air_streams import ops, scope


def traced(function: Callable[..., Any], *args: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake", record_stack_traces=True)(*args)


def attributes(graph: Graph, op_type: str) -> dict[str, Any]:
    """The private attributes of the only operator of a type."""
    (node,) = (node for node in graph if node.op_type == op_type)
    return {name: attr.value for name, attr in node.attrs.items() if name.startswith("_")}


def only(graph: Graph, op_type: str) -> Node:
    (node,) = (node for node in graph if node.op_type == op_type)
    return node


X = torch.randn(4, 4)


def test_G31_G32_G34_G35_A45_scopes_label_the_operators_inside_and_no_others() -> None:
    def model(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("side", 0, enable_inner_parallel=False):
            with scope.limit_core_num(4, 8):
                x = torch.relu(x)
            x = torch.tanh(x)
            with scope.npu_stream_switch("default"):
                x = torch.sin(x)
        with scope.super_kernel("attention", "stream-fusion=1"), scope.op_never_timeout():
            x = torch.exp(x)
            with scope.super_kernel(None), scope.deterministic(1):
                x = torch.cos(x)
        return torch.sigmoid(x)

    graph = lower(traced(model, X))
    stream = {"_user_stream_label": "side", "_user_stream_priority": "0"}
    stream["_enable_inner_parallel"] = "False"
    assert attributes(graph, "Relu") == {**stream, "_op_aicore_num": "4", "_op_vectorcore_num": "8"}
    assert attributes(graph, "Tanh") == stream
    assert attributes(graph, "Sin") == {"_enable_inner_parallel": "False"}
    timeless = {"_op_exec_never_timeout": "True"}
    kernel = {"_super_kernel_scope": "attention", "_super_kernel_options": "stream-fusion=1"}
    assert attributes(graph, "Exp") == {**kernel, **timeless}
    assert attributes(graph, "Cos") == {**timeless, "_deterministic": "1", "_deterministic_level": "1"}
    assert attributes(graph, "Sigmoid") == {}


def test_G33_a_wait_puts_what_follows_on_its_stream_behind_what_it_waits_for() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        a = torch.relu(x)
        mark = ops.record()
        b = torch.tanh(x)
        with scope.npu_stream_switch("side"):
            ops.wait([mark, b])
            c = torch.exp(x)
        return a, b, c, torch.sin(x)

    graph = lower(traced(model, X))
    assert {node.op_type for node in only(graph, "Exp").control_inputs} == {"Relu", "Tanh"}
    assert only(graph, "Sin").control_inputs == ()


def test_a_graph_with_scopes_computes_what_eager_computes() -> None:
    def model(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("side"), scope.op_never_timeout(True):
            y = torch.relu(x)
            y = scope.npu_wait_tensor(y, x)
        return y + 1

    compiled = compile_graph(traced(model, X), [X], engine="reference")
    torch.testing.assert_close(compiled(X)[0], model(X))


def test_a_tagged_event_is_refused_with_the_users_line_and_what_to_do() -> None:
    event = ops.npu_create_tagged_event("scopes")

    def model(x: Tensor) -> Tensor:
        ops.npu_tagged_event_record(event)
        return x + 1

    gm = traced(model, X)
    frames = ("/models/test_scopes.py", "step"), ("/site/air_streams/ops.py", "npu_tagged_event_record")
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.air_streams.event_record.default):
        node.meta["stack_trace"] = "".join(
            f'  File "{f}", line 7, in {name}\n    code\n' for f, name in frames
        )
    with pytest.raises(UnsupportedGraphError) as failure:
        lower(gm)
    text = str(failure.value)
    assert "tagged events belong to reduce-overhead" in text
    assert "ops.wait" in text
    assert "test_scopes.py" in text
    assert "air_streams/ops.py" not in text
