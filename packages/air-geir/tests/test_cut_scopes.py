"""A graph that is cut inside a scope: every compiled piece has the scope, and no other one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from air_geir import compile_graph
from air_geir._fallback import SplitExecutable
from air_streams import note_scopes, ops, scope

X = torch.randn(4, 4)


def traced(function: Any, *args: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake", record_stack_traces=True)(*args)


def attributes(run: SplitExecutable, op_type: str) -> dict[str, Any]:
    """The private attributes of the only operator of a type in all pieces."""
    nodes = [node for piece in run.pieces.values() for node in piece.program.graph if node.op_type == op_type]
    (node,) = nodes
    return {name: attr.value for name, attr in node.attrs.items() if name.startswith("_")}


def model(x: Tensor) -> Tensor:
    with scope.limit_core_num(4, 8):
        with scope.npu_stream_switch("side"):
            q, r = torch.linalg.qr(torch.tanh(x))
            q = torch.relu(q)
        y = torch.sin(q @ r)
    return torch.exp(y)


def test_pieces_have_the_scopes_of_their_operators() -> None:
    run = compile_graph(traced(model, X), [X], engine="reference", fallback="eager")
    assert isinstance(run, SplitExecutable)
    assert [one.target for one in run.eager] == ["aten.linalg_qr.default"]
    cores = {"_op_aicore_num": "4", "_op_vectorcore_num": "8"}
    side = {**cores, "_user_stream_label": "side", "_user_stream_priority": "0"}
    found = {name: attributes(run, name) for name in ("Tanh", "Relu", "Sin", "Exp")}
    assert found == {"Tanh": side, "Relu": side, "Sin": cores, "Exp": {}}
    q, r = torch.linalg.qr(torch.tanh(X))
    torch.testing.assert_close(run(X)[0], torch.exp(torch.sin(torch.relu(q) @ r)))


def test_an_event_inside_a_scope_is_all_that_runs_eagerly() -> None:
    event = ops.npu_create_tagged_event("event")

    def ordered(x: Tensor) -> Tensor:
        y = torch.relu(x)
        ops.npu_tagged_event_record(event)
        with scope.npu_stream_switch("side"):
            ops.npu_tagged_event_wait(event)
            return y * 2

    run = compile_graph(traced(ordered, X), [X], engine="reference", fallback="eager")
    assert isinstance(run, SplitExecutable)
    assert {one.target for one in run.eager} == {
        "air_streams.event_record.default",
        "air_streams.event_wait.default",
    }
    torch.testing.assert_close(run(X)[0], torch.relu(X) * 2)


def test_scopes_that_do_not_end_as_they_began_stay_where_they_are() -> None:
    gm = traced(model, X)
    ends = [node for node in gm.graph.nodes if "exit" in str(node.target)]
    gm.graph.erase_node(ends[0])
    count = len(gm.graph.nodes)
    assert note_scopes(gm) == frozenset()
    assert len(gm.graph.nodes) == count
