"""Building and editing graphs."""

from __future__ import annotations

import gc
import random
import sys

import pytest
import torch

from air_geir.errors import AttributeKindError, GraphError, PrototypeError, UnknownOperatorError
from air_geir.ir import DataType, Graph, Origin, Port, TensorDesc, symbol
from air_geir.verify import verify_graph

F32 = TensorDesc(DataType.FLOAT, (2, 2))


def chain(length: int) -> tuple[Graph, list[Port]]:
    graph = Graph("chain")
    ports = [graph.data("x", F32)]
    for _ in range(length):
        ports.append(graph.add("Abs", ports[-1], outputs=F32).output)
    graph.output([ports[-1]])
    return graph, ports


def test_inputs_are_bound_by_the_prototype() -> None:
    graph = Graph()
    x = graph.data("x", F32)
    node = graph.add("MatMulV2", x, x, transpose_x1=True)
    assert node.input_names == ("x1", "x2", "bias", "offset_w")
    assert [p.key if p else None for p in node.inputs] == ["x:0", "x:0", None, None]
    assert node.attr("transpose_x1") is True
    assert node.attr("transpose_x2") is False


def test_dynamic_ports_are_numbered() -> None:
    graph = Graph()
    x = graph.data("x", F32)
    cat = graph.add("ConcatV2", [x, x, x], graph.const(0), N=3)
    assert cat.input_names == ("x0", "x1", "x2", "concat_dim")
    assert [p.key if p else None for p in cat.dynamic_input("x")] == ["x:0"] * 3
    split = graph.add("SplitV", cat, graph.const([2, 4]), graph.const(0), num_split=2, num_outputs=2)
    assert [p.name for p in split.outputs] == ["y0", "y1"]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda g, x: g.add("Addd", x, x), UnknownOperatorError, "did you mean Add"),
        (lambda g, x: g.add("Add", x), PrototypeError, "input x2 is required"),
        (lambda g, x: g.add("Add", x, x, x), PrototypeError, "takes 2 inputs, got 3"),
        (lambda g, x: g.add("Add", x, [x]), PrototypeError, "takes one value, got list"),
        (lambda g, x: g.add("Pack", x, N=1), PrototypeError, "takes a sequence"),
        (lambda g, x: g.add("Add", x, x, alpha=1), PrototypeError, "no attribute 'alpha'"),
        (lambda g, x: g.add("Cast", x), PrototypeError, "needs dst_type"),
        (lambda g, x: g.add("Cast", x, dst_type="float"), AttributeKindError, "not a value of kind int"),
        (lambda g, x: g.add("MatMul", x, x, transpose_x1=1), AttributeKindError, "not a value of kind bool"),
        (lambda g, x: g.add("Unpack", x, num=2), PrototypeError, "say num_outputs"),
        (lambda g, x: g.add("Abs", 3), PrototypeError, "takes one value, got int"),
        (lambda g, x: g.add("Add", x, "two"), PrototypeError, "takes one value, got str"),
        (lambda g, x: g.add("Add", 1j, x), PrototypeError, "takes one value, got complex"),
        (lambda g, x: g.add("If", x, [x], num_outputs=1), PrototypeError, "needs subgraphs"),
    ],
)
def test_a_misfit_is_refused_where_it_is_made(build: object, error: type[Exception], text: str) -> None:
    graph = Graph()
    x = graph.data("x", F32)
    size = len(graph)
    with pytest.raises(error, match=text):
        build(graph, x)  # type: ignore[operator]  # a parametrised lambda
    assert len(graph) == size, "a refused node leaves nothing behind"
    assert not x.uses


def test_the_error_of_a_misfit_shows_the_prototype() -> None:
    graph = Graph()
    with pytest.raises(PrototypeError, match=r"prototype: MatMul\(x1, x2, bias\?\) -> y"):
        graph.add("MatMul", graph.data("x", F32))


def test_a_value_of_another_graph_is_refused() -> None:
    other = Graph("other").data("x", F32)
    with pytest.raises(PrototypeError, match="not a value of graph mine"):
        Graph("mine").add("Abs", other)


def test_names_are_unique_and_readable() -> None:
    graph = Graph()
    x = graph.data("x", F32)
    assert [graph.add("Abs", x, name="x").name for _ in range(3)] == ["x_1", "x_2", "x_3"]
    assert graph.add("Abs", x).name == "Abs"


def test_replacing_uses_moves_every_user() -> None:
    graph, ports = chain(1)
    a = graph.add("Abs", ports[0])
    b = graph.add("Add", a, a)
    assert a.output.replace_uses(ports[0]) == 2
    assert a.is_dead
    assert [p.key if p else None for p in b.inputs] == ["x:0", "x:0"]
    a.erase()
    assert "Abs_1" not in graph


def test_a_needed_node_is_not_erased() -> None:
    _, ports = chain(2)
    with pytest.raises(GraphError, match="Abs_1 still need it"):
        ports[1].node.erase()


def test_control_edges_keep_a_node_alive() -> None:
    graph, ports = chain(1)
    printer = graph.add("PrintV2", ports[0])
    graph.net_output.run_after(printer)
    assert graph.erase_dead() == 0
    graph.net_output.drop_control(printer)
    assert graph.erase_dead() == 1


def test_dead_chains_are_erased_whole() -> None:
    graph, ports = chain(3)
    value = ports[0]
    for _ in range(100):
        value = graph.add("Abs", value).output
    assert graph.erase_dead() == 100
    assert verify_graph(graph) == []


def test_inserting_before_keeps_the_order_topological() -> None:
    graph, ports = chain(2)
    with graph.inserting_before(ports[2].node):
        new = graph.add("Neg", ports[1])
    ports[2].node.set_input(0, new)
    assert [n.op_type for n in graph] == ["Data", "Abs", "Neg", "Abs", "NetOutput"]
    assert verify_graph(graph) == []


def test_sorting_restores_order_and_finds_cycles() -> None:
    graph, ports = chain(2)
    late = graph.add("Neg", ports[0])
    ports[1].node.set_input(0, late)
    assert [v.rule for v in verify_graph(graph)] == ["nodes.order"]
    graph.sort()
    assert verify_graph(graph) == []
    late.set_input(0, ports[2])
    with pytest.raises(GraphError, match="cycle through"):
        graph.sort()


def test_erasing_while_iterating_is_safe() -> None:
    graph, ports = chain(1)
    for _ in range(10):
        graph.add("Neg", ports[0])
    for node in graph:
        if node.op_type == "Neg":
            node.erase()
    assert [n.op_type for n in graph] == ["Data", "Abs", "NetOutput"]


def test_random_edits_keep_uses_and_users_in_agreement() -> None:
    rng = random.Random(0)
    graph, _ = chain(20)
    for _ in range(300):
        values = [p for n in graph for p in n.outputs]
        choice = rng.random()
        if choice < 0.5:
            graph.add("Add", rng.choice(values), rng.choice(values), control=[rng.choice(values)])
        elif choice < 0.8:
            rng.choice(values).replace_uses(values[0], except_by=graph.net_output)
        else:
            graph.erase_dead()
    graph.net_output.set_input(0, graph.inputs[0].output)
    for node in graph:
        for slot, port in enumerate(node.inputs):
            assert port is None or (node, slot) in port.uses
        for port in node.outputs:
            assert all(user.inputs[slot] is port for user, slot in port.uses)
            assert all(user.graph is graph for user in port.users)


def test_scalars_choose_the_types_torch_would() -> None:
    graph = Graph()
    kinds = [graph.const(v).desc.dtype for v in (1, 1.0, True, [1, 2], [1, 2.5])]
    assert kinds == [DataType.INT64, DataType.FLOAT, DataType.BOOL, DataType.INT64, DataType.FLOAT]
    assert graph.const(1, dtype=torch.int32).desc.dtype is DataType.INT32


def test_nodes_remember_where_they_come_from() -> None:
    graph = Graph()
    x = graph.data("x", F32)
    with graph.origin_of(Origin("add_1", "model.py:3  y = x + x")):
        node = graph.add("Add", x, x)
    assert str(node.origin) == "add_1 (model.py:3  y = x + x)"


def test_scope_attributes_mark_the_nodes_made_inside() -> None:
    graph = Graph()
    x = graph.data("x", F32)
    graph.scope_attrs = {"_user_stream_label": "side", "_user_stream_priority": "0"}
    assert graph.add("Abs", x).attr("_user_stream_label") == "side"


def test_dynamic_sizes_are_expressions() -> None:
    desc = TensorDesc(DataType.FLOAT, (symbol("s0"), 4))
    assert desc.file_shape() == (-1, 4)
    assert not desc.is_static
    assert TensorDesc(DataType.FLOAT, None).file_shape() == (-2,)


def calls_of_an_edit(length: int) -> int:
    graph, ports = chain(length)
    middle, calls = ports[length // 2], 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    graph.add("Neg", middle).erase()
    gc.disable()  # a collection calls whoever watches it
    sys.setprofile(count)
    try:
        node = graph.add("Neg", middle)
        node.output.replace_uses(ports[0])
        with graph.inserting_before(middle.node):
            graph.add("Neg", ports[0]).erase()
        node.erase()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_an_edit_costs_the_same_at_any_size() -> None:
    assert calls_of_an_edit(4000) == calls_of_an_edit(40)
