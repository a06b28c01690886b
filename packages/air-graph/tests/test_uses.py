"""What nodes do to the memory they are given, higher-order operators included."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from air_graph import effects_of_node, is_opaque, uses_of, written_inputs

aten = torch.ops.aten


def graph_with(*names: str) -> tuple[Graph, list[Node]]:
    graph = Graph()
    return graph, [graph.placeholder(name) for name in names]


def written(node: Node) -> list[str]:
    return [use.value.name for use in uses_of(node) if use.writes]


def body(write: bool) -> GraphModule:
    graph, (x,) = graph_with("x")
    y = graph.call_function((aten.add_ if write else aten.add).Tensor, (x, 1))
    graph.output((y,))
    return GraphModule({}, graph)


def cond(then: GraphModule, otherwise: GraphModule) -> tuple[GraphModule, Node]:
    graph, (pred, x) = graph_with("pred", "x")
    bodies = [graph.create_node("get_attr", name) for name in ("then", "otherwise")]
    node = graph.call_function(torch.ops.higher_order.cond, (pred, *bodies, (x,)))
    graph.output((node,))
    gm = GraphModule({"then": then, "otherwise": otherwise}, graph)
    return gm, next(n for n in gm.graph.nodes if n.target is torch.ops.higher_order.cond)


def test_lists_are_looked_into() -> None:
    graph, (a, b) = graph_with("a", "b")
    node = graph.call_function(aten._foreach_add_.Scalar, ([a, b], 1))
    assert written(node) == ["a", "b"]
    assert [use.key for use in uses_of(node)] == [0, 0]


def test_keywords_are_found_by_name() -> None:
    graph, (a, b, out) = graph_with("a", "b", "out")
    node = graph.call_function(aten.add.out, (a, b), {"out": out})
    assert written(node) == ["out"]


def test_a_higher_order_operator_writes_what_its_graphs_write() -> None:
    _, reading = cond(body(False), body(False))
    assert not is_opaque(reading)
    assert written(reading) == []
    gm, writing = cond(body(False), body(True))
    assert written(writing) == ["x"]
    assert {n.name for n in written_inputs(gm)} == {"x"}


def test_a_wrapper_does_what_the_operator_inside_does() -> None:
    graph, (token, x, y) = graph_with("token", "x", "y")
    node = graph.call_function(torch.ops.higher_order.with_effects, (token, aten.add_.Tensor, x, y))
    assert written(node) == ["x"]
    assert effects_of_node(node).by_key[0].writes


def test_a_functionalised_write_is_none() -> None:
    graph, (x,) = graph_with("x")
    op: Any = torch.ops.higher_order.auto_functionalized
    node = graph.call_function(op, (aten.add_.Tensor,), {"self": x, "other": 1})
    assert written(node) == []


def test_a_kernel_that_nothing_is_known_of_may_write_everything() -> None:
    graph, (x,) = graph_with("x")
    node = graph.call_function(print, (x,))
    assert is_opaque(node)
    assert written(node) == ["x"]
    method = graph.call_method("relu_", (x,))
    assert written(method) == ["x"]


def test_inputs_are_written_through_any_chain_of_views() -> None:
    graph, (x, y) = graph_with("x", "y")
    part = graph.call_function(aten.slice.Tensor, (x, 0, 1, 2))
    pieces = graph.call_function(aten.split.Tensor, (part, 1))
    import operator

    first = graph.call_function(operator.getitem, (pieces, 0))
    shaped = graph.call_function(aten._unsafe_view.default, (first, [1, -1]))
    graph.call_function(aten.mul_.Tensor, (shaped, y))
    copied = graph.call_function(aten.clone.default, (y,))
    graph.call_function(aten.mul_.Tensor, (copied, 2))
    graph.output((copied,))
    gm = GraphModule({}, graph)
    assert {n.name for n in written_inputs(gm)} == {"x"}


def test_an_operator_that_hides_its_writes_writes_inputs() -> None:
    graph, (q, k, cos, sin) = graph_with("q", "k", "cos", "sin")
    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        if not hasattr(torch.ops.npu, "npu_apply_rotary_pos_emb"):
            library.define(
                "npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin) -> (Tensor, Tensor)"
            )
        graph.call_function(torch.ops.npu.npu_apply_rotary_pos_emb.default, (q, k, cos, sin))
        graph.output(())
        assert {n.name for n in written_inputs(GraphModule({}, graph))} == {"q", "k"}


def test_a_number_among_what_graphs_are_given_does_not_move_what_they_write() -> None:
    inner, (first, *_) = graph_with("first", "second", "number")
    inner.output((inner.call_function(aten.add_.Tensor, (first, 1)),))
    graph, (pred, a, b) = graph_with("pred", "a", "b")
    bodies = [graph.create_node("get_attr", name) for name in ("then", "otherwise")]
    graph.output((graph.call_function(torch.ops.higher_order.cond, (pred, *bodies, (a, b, 3))),))
    gm = GraphModule({name: GraphModule({}, inner) for name in ("then", "otherwise")}, graph)
    (node,) = (n for n in gm.graph.nodes if n.target is torch.ops.higher_order.cond)
    assert written(node) == ["a"]
