"""What is known about memory, and that it stays true under edits."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses import Facts
from air_fxpasses.testing import functional_graph

aten = torch.ops.aten


def graph_of(build: object, *inputs: torch.Tensor) -> tuple[GraphModule, Facts]:
    graph = Graph()
    placeholders = [graph.placeholder(f"x{i}") for i in range(len(inputs))]
    graph.output(build(graph, *placeholders))  # type: ignore[operator]  # a local function of the test
    gm = GraphModule(torch.nn.Module(), graph)
    return gm, Facts(gm, inputs)


def named(gm: GraphModule, name: str) -> torch.fx.Node:
    found: torch.fx.Node = {n.name: n for n in gm.graph.nodes}[name]
    return found


def test_views_live_in_the_memory_of_their_base_and_copies_do_not() -> None:
    gm = functional_graph(
        lambda x: (x[1:], x.t(), x.clone(), x.reshape(-1), x.t().reshape(-1)), torch.empty(3, 4)
    )
    facts = Facts(gm)
    x = next(iter(gm.graph.nodes))
    shared = {
        n.target: facts.storage(n) == facts.storage(x) for n in gm.graph.nodes if n.op == "call_function"
    }
    assert shared[aten.slice.Tensor]
    assert shared[aten.t.default]
    assert not shared[aten.clone.default]
    assert facts.input_of(facts.storage(x) or 0) is x


def test_views_touch_nothing_and_their_readers_do() -> None:
    gm = functional_graph(lambda x: x[1:].neg() + 1, torch.empty(3, 4))
    facts = Facts(gm)
    x = next(iter(gm.graph.nodes))
    assert [t.node.target for t in facts.touches(facts.storage(x) or 0)] == [aten.neg.default]


def test_W25_mutated_inputs_are_found_behind_lists_views_and_keywords() -> None:
    def build(
        graph: Graph, a: torch.fx.Node, b: torch.fx.Node, c: torch.fx.Node
    ) -> tuple[torch.fx.Node, ...]:
        graph.call_function(aten._foreach_add_.Scalar, ([a], 1))
        view = graph.call_function(aten.select.int, (b, 0, 0))
        graph.call_function(aten.add.out, (view, view), {"out": view})
        return (c,)

    _, facts = graph_of(build, torch.ones(2), torch.ones(2, 2), torch.ones(2))
    assert [n.name for n in facts.mutated_inputs()] == ["x0", "x1"]


def test_lists_of_results_share_memory_with_what_is_taken_from_them() -> None:
    gm = functional_graph(lambda x: x.split(2)[1] + 1, torch.empty(4, 2))
    facts = Facts(gm)
    x = next(iter(gm.graph.nodes))
    taken = [n for n in gm.graph.nodes if n.target is operator.getitem]
    assert taken
    assert all(facts.storage(n) == facts.storage(x) for n in taken)


def test_memory_reached_by_a_callable_without_schema_is_pinned() -> None:
    def build(graph: Graph, a: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
        b = graph.call_function(aten.neg.default, (a,))
        return (graph.call_function(torch.relu, (b,)),)

    gm, facts = graph_of(build, torch.ones(2))
    node = named(gm, "neg_default")
    assert facts.pinned_by(facts.storage(node) or 0) is named(gm, "relu")


def test_an_operator_that_may_return_its_argument_pins_it() -> None:
    from air_fxpasses import register_may_return_argument
    from air_graph._effects import _may_return_argument, effects_of

    register_may_return_argument("aten::neg")
    try:
        gm, facts = graph_of(lambda g, a: (g.call_function(aten.neg.default, (a,)),), torch.ones(2))
        x = named(gm, "x0")
        assert facts.pinned_by(facts.storage(x) or 0) is named(gm, "neg_default")
    finally:
        _may_return_argument.discard("aten::neg")
        effects_of.cache_clear()


def test_lifetime_goes_from_the_allocation_to_the_last_touch_of_any_view() -> None:
    gm = functional_graph(lambda x: ((y := x + 1)[0] * 2, y.sum())[1] + 1, torch.empty(3, 4))
    facts = Facts(gm)
    y = next(n for n in gm.graph.nodes if n.target is aten.add.Tensor)
    first, last = facts.lifetime(y)
    assert first is y
    assert last.target is aten.sum.default


def test_refresh_recomputes_what_an_edit_made_stale() -> None:
    gm = functional_graph(lambda x: (x + 1).t().neg(), torch.empty(3, 4))
    facts = Facts(gm)
    transpose = next(n for n in gm.graph.nodes if n.target is aten.t.default)
    transpose.replace_all_uses_with(transpose.args[0])
    facts.refresh()
    neg = next(n for n in gm.graph.nodes if n.target is aten.neg.default)
    assert neg.meta["val"].shape == (3, 4)
    assert facts.falsehood() is None


def test_a_false_value_is_found() -> None:
    gm = functional_graph(lambda x: x + 1, torch.empty(3, 4))
    facts = Facts(gm)
    node = next(n for n in gm.graph.nodes if n.op == "call_function")
    with facts.values.mode:
        node.meta["val"] = torch.empty(2, 2)
    assert "add" in str(facts.falsehood())


def test_moving_a_value_moves_its_views_and_users() -> None:
    gm = functional_graph(lambda x: (y := x + 1).view(-1)[2:].neg() + y.sum(), torch.empty(3, 4))
    facts = Facts(gm)
    facts.build()
    add = next(n for n in gm.graph.nodes if n.target is aten.add.Tensor)
    x = next(iter(gm.graph.nodes))
    facts.relocate(add, facts.value(x))
    view = next(n for n in gm.graph.nodes if n.target is aten.view.default)
    assert facts.storage(view) == facts.storage(x)
    assert {t.node.target for t in facts.touches(facts.storage(x) or 0)} >= {
        aten.neg.default,
        aten.sum.default,
    }


def test_a_value_recorded_for_the_output_does_not_keep_a_value_from_moving() -> None:
    """`FakeTensorProp` and torch's minifier record one."""
    gm = functional_graph(lambda x: x + 1, torch.empty(3, 4))
    add = next(n for n in gm.graph.nodes if n.target is aten.add.Tensor)
    output, x = gm.graph.output_node(), next(iter(gm.graph.nodes))
    output.meta["val"] = (add.meta["val"],)
    facts = Facts(gm)
    facts.build()
    facts.relocate(add, facts.value(x))
    assert facts.storage(add) == facts.storage(x)


def test_relocation_keeps_readers_of_readers_indexed_in_any_user_order() -> None:
    """Found by fuzzing: a user indexed before another user that is also its argument lost its touch."""

    def build(graph: Graph, x: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
        first = graph.call_function(aten.neg.default, (x,))
        other = graph.call_function(aten.neg.default, (x,))
        fill = graph.call_function(aten.fill.Scalar, (first, 1))
        lerp = graph.call_function(aten.lerp.Tensor, (fill, first, fill))
        fill.args = (first, 1)
        return (lerp, other)

    gm, facts = graph_of(build, torch.ones(4))
    facts.build()
    nodes = list(gm.graph.nodes)
    facts.replace_uses(nodes[1], nodes[2])
    assert facts.falsehood() is None


def test_a_scatter_follows_the_storage_offset_of_a_base_that_moves() -> None:
    """Found by fuzzing: torch's cached fake results forget the offset that a scatter keeps."""
    gm = functional_graph(lambda x: torch.select_scatter((x + 1)[2:4], x[0], 0, 0), torch.ones(4))
    facts = Facts(gm)
    assert facts.falsehood() is None


def test_fuzz_a_graph_traced_with_static_sizes_is_read_with_the_kernels_that_traced_it() -> None:
    """Found by fuzzing: the reference of a scatter counts the elements of its base, its kernel those of the storage."""

    def behind(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x, x.as_strided((2,), (2,), 5) + 1, (2,), (2,), 5)

    window = torch.arange(8.0)[:4]
    gm = make_fx(behind, tracing_mode="fake")(window)
    scatter = next(n for n in gm.graph.nodes if n.target is aten.as_strided_scatter.default)
    again = Facts(gm, (window,)).values.evaluate(scatter)
    assert again.shape == scatter.meta["val"].shape
