"""Single mutations of a valid file: those that matter are rejected by the right rule, the rest is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from air_geir import file
from air_geir.ir import DataType, Graph, TensorDesc, symbol
from air_geir.verify import verify_model

Mutation = Callable[[Any], None]
F32 = TensorDesc(DataType.FLOAT, (symbol("s0"), 4))


def branch(op_type: str) -> Graph:
    graph = Graph(op_type)
    x = graph.data("x", F32)
    graph.output([graph.add(op_type, x, outputs=F32)])
    return graph


def valid_model() -> Any:
    graph = Graph("main")
    x = graph.data("x", F32)
    y = graph.data("y", F32)
    index = graph.data("index", TensorDesc(DataType.INT64, (2,)))
    weight = graph.const(torch.randn(4, 4), name="weight")
    mm = graph.add("MatMulV2", x, weight, outputs=F32, transpose_x2=True)
    cast = graph.add(
        "Cast", mm, dst_type=torch.float16, outputs=TensorDesc(DataType.FLOAT16, (symbol("s0"), 4))
    )
    cat = graph.add("ConcatV2", [mm, y], graph.const(1, name="axis"), N=2, outputs=F32)
    split = graph.add(
        "SplitV",
        cat,
        graph.const([4, 4], name="sizes"),
        graph.const(1, name="dim"),
        num_split=2,
        num_outputs=2,
    )
    soft = graph.add("SoftmaxV2", split[0], axes=[-1], outputs=F32)
    conv = graph.add("GatherV2", soft, index, graph.const(0, name="zero"), batch_dims=0, outputs=F32)
    chosen = graph.add(
        "If", graph.const(True, name="flag"), [conv], num_outputs=1,
        subgraphs={"then_branch": branch("Abs"), "else_branch": branch("Neg")},
    )  # fmt: skip
    write = graph.add("Assign", y, split[1], outputs=F32)
    show = graph.add("PrintV2", x)
    graph.output([chosen, cast], control=[write, show])
    return file.parse_model(file.to_bytes(graph))


@dataclass(frozen=True)
class Case:
    label: str
    rule: str | None
    """The rule that must reject it; None when the loader reads the file as before."""
    mutate: Mutation


def op(model: Any, name: str) -> Any:
    return next(o for o in model.graph[0].op if o.name == name)


def on(name: str, change: Callable[[Any], object]) -> Mutation:
    return lambda model: void(change(op(model, name)))


def void(_: object) -> None:
    return None


def assign(path: str, value: object) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        *parts, last = path.split(".")
        for part in parts:
            target = target[int(part)] if part.isdigit() else getattr(target, part)
        setattr(target, last, value)

    return change


def set_edge(slot: int, text: str) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        target.input[slot] = text

    return change


def attr(key: str, field: str, value: object) -> Callable[[Any], None]:
    return lambda target: setattr(target.attr[key], field, value)


def drop_attr(key: str) -> Callable[[Any], None]:
    return lambda target: void(target.attr.pop(key))


NAMES = [o.name for o in valid_model().graph[0].op]
CONSTANTS = ("weight", "axis", "sizes", "dim", "zero", "flag")
INPUTS = ("x", "y", "index")
CONSUMERS = tuple(n for n in NAMES if n not in CONSTANTS and n not in INPUTS)
PRODUCERS = tuple(n for n in NAMES if n not in ("NetOutput", "PrintV2", "Assign"))


def mutations() -> Iterator[Case]:
    yield from node_mutations()
    yield from edge_mutations()
    yield from port_mutations()
    yield from attribute_mutations()
    yield from constant_mutations()
    yield from input_mutations()
    yield from descriptor_mutations()
    yield from graph_mutations()
    yield from harmless_mutations()


def node_mutations() -> Iterator[Case]:
    for name in NAMES:
        yield Case(f"name of {name} dropped", "nodes.name", on(name, assign("name", "")))
        yield Case(f"type of {name} dropped", "nodes.type", on(name, assign("type", "")))
    for name in PRODUCERS:
        other = "weight" if name != "weight" else "axis"
        yield Case(f"{name} renamed like {other}", "nodes.unique", on(name, assign("name", other)))
        yield Case(f"{name} renamed alone", "edges.producer", on(name, assign("name", f"{name}_new")))


def edge_mutations() -> Iterator[Case]:
    for name in CONSUMERS:
        yield Case(f"{name} fed by nobody", "edges.producer", on(name, set_edge(0, "nobody:0")))
        yield Case(f"index of an edge of {name} shifted", "edges.index", on(name, set_edge(0, "x:1")))
        yield Case(f"an edge of {name} loses its index", "edges.syntax", on(name, set_edge(0, "x")))
        yield Case(f"an edge of {name} has index -2", "edges.index", on(name, set_edge(0, "x:-2")))
        yield Case(f"an edge of {name} becomes control", "edges.slots", on(name, set_edge(0, "x:-1")))
        yield Case(f"an edge of {name} dropped", "edges.slots", on(name, lambda o: o.input.pop(0)))
        yield Case(
            f"an edge of {name} doubled", "edges.slots", on(name, lambda o: o.input.insert(0, o.input[0]))
        )
        yield Case(f"a required input of {name} not fed", "edges.unfed", on(name, set_edge(0, "")))
    yield Case("an unfed input is fed", "edges.unfed", on("MatMulV2", set_edge(2, "x:0")))
    yield Case("two nodes feed each other", "nodes.cycle", on("MatMulV2", set_edge(0, "SoftmaxV2:0")))
    yield Case("a node waits for itself", "nodes.cycle", on("Cast", lambda o: o.input.append("Cast:-1")))
    yield Case("a control edge from nobody", "edges.producer", on("NetOutput", set_edge(2, "nobody:-1")))
    yield Case("an edge into a graph input", "edges.slots", on("x", lambda o: o.input.append("weight:0")))


def port_mutations() -> Iterator[Case]:
    for name in CONSUMERS:
        yield Case(f"input of {name} without name", "ports.name", on(name, assign("input_desc.0.name", "")))
        yield Case(
            f"input of {name} misnamed", "ports.prototype", on(name, assign("input_desc.0.name", "zz"))
        )
        yield Case(f"descriptor of {name} dropped", "edges.slots", on(name, lambda o: o.input_desc.pop()))
    for name in ("MatMulV2", "Cast", "ConcatV2", "SoftmaxV2", "GatherV2", "Assign"):
        yield Case(
            f"output of {name} misnamed", "ports.prototype", on(name, assign("output_desc.0.name", "out"))
        )
        yield Case(f"output of {name} dropped", "ports.prototype", on(name, lambda o: o.output_desc.pop()))
        yield Case(
            f"name list of {name} shifted", "ports.list", on(name, lambda o: shift(o, "_input_name_key"))
        )
        yield Case(f"slot list of {name} dropped", "ports.list", on(name, drop_attr("_input_name_value")))
    yield Case("two inputs of one name", "ports.unique", on("MatMulV2", assign("input_desc.1.name", "x1")))
    yield Case("two outputs of one name", "ports.unique", on("SplitV", assign("output_desc.1.name", "y0")))
    yield Case(
        "a dynamic input skips a number", "ports.prototype", on("ConcatV2", assign("input_desc.1.name", "x2"))
    )
    yield Case(
        "a dynamic output skips a number", "ports.prototype", on("SplitV", assign("output_desc.1.name", "y2"))
    )
    yield Case(
        "NetOutput gives a value",
        "output.ports",
        on("NetOutput", lambda o: o.output_desc.add(name="y", dtype=1)),
    )


def shift(target: Any, key: str) -> None:
    values = list(target.attr[key].list.s)
    target.attr[key].list.s[:] = [*values[1:], b"zz"]


def attribute_mutations() -> Iterator[Case]:
    for name, key in (("Cast", "dst_type"), ("SplitV", "num_split"), ("weight", "value"), ("axis", "value")):
        rule = "attrs.required"
        yield Case(f"{key} of {name} dropped", rule, on(name, drop_attr(key)))
        yield Case(f"{key} of {name} without value", "attrs.value", on(name, partial(clear, key=key)))
        yield Case(f"{key} of {name} is a text", "attrs.kind", on(name, attr(key, "s", b"9")))
        yield Case(f"{key} of {name} renamed", "attrs.required", on(name, partial(rename, key=key)))
    for key, name in (
        ("transpose_x2", "MatMulV2"),
        ("batch_dims", "GatherV2"),
        ("N", "ConcatV2"),
        ("axes", "SoftmaxV2"),
    ):
        yield Case(f"optional {key} renamed", "attrs.unknown", on(name, partial(rename, key=key)))
        yield Case(f"optional {key} is text", "attrs.kind", on(name, attr(key, "s", b"1")))
        yield Case(f"optional {key} without value", "attrs.value", on(name, partial(clear, key=key)))
    yield Case("bool given as int", "attrs.kind", on("MatMulV2", attr("transpose_x2", "i", 1)))
    yield Case(
        "a list of ints forgets what it holds", "attrs.val_type", on("SoftmaxV2", lambda o: val_type(o, 0))
    )
    for wrong in (1, 3, 4, 5, 10):
        yield Case(
            f"a list of ints says {wrong}",
            "attrs.val_type",
            on("SoftmaxV2", partial(val_type, number=wrong)),
        )
    yield Case(
        "a list holds two kinds",
        "attrs.val_type",
        on("SoftmaxV2", lambda o: o.attr["axes"].list.f.append(1.0)),
    )
    yield Case("N shifted", "ports.count", on("ConcatV2", attr("N", "i", 3)))
    yield Case("num_split shifted", "ports.count", on("SplitV", attr("num_split", "i", 3)))
    yield Case("dst_type in the file's numbering", "cast.dtype", on("Cast", attr("dst_type", "i", 2)))
    yield Case("dst_type out of range", "cast.dtype", on("Cast", attr("dst_type", "i", 77)))


def clear(target: Any, key: str) -> None:
    target.attr[key].Clear()


def rename(target: Any, key: str) -> None:
    target.attr[f"{key}x"].CopyFrom(target.attr[key])
    del target.attr[key]


def val_type(target: Any, number: int) -> None:
    target.attr["axes"].list.val_type = number


def constant_mutations() -> Iterator[Case]:
    for name in CONSTANTS:
        yield Case(f"bytes of {name} cut", "const.bytes", on(name, lambda o: cut(o, -1)))
        yield Case(f"bytes of {name} dropped", "const.bytes", on(name, lambda o: cut(o, 0)))
        yield Case(
            f"shape of {name} grows",
            "const.bytes",
            on(name, lambda o: o.attr["value"].t.desc.shape.dim.append(2)),
        )
        yield Case(
            f"shape of {name} unknown",
            "const.value",
            on(name, lambda o: o.attr["value"].t.desc.shape.dim.append(-1)),
        )
        yield Case(f"type of the value of {name} dropped", "const.value", on(name, lambda o: no_type(o)))
        yield Case(
            f"{name} described with another type", "const.desc", on(name, assign("output_desc.0.dtype", 3))
        )
        yield Case(
            f"{name} described with another shape",
            "const.desc",
            on(name, lambda o: o.output_desc[0].shape.dim.append(1)),
        )


def cut(target: Any, end: int) -> None:
    target.attr["value"].t.data = target.attr["value"].t.data[:end]


def no_type(target: Any) -> None:
    target.attr["value"].t.desc.dtype = 0


def input_mutations() -> Iterator[Case]:
    for name in INPUTS:
        yield Case(f"index of {name} shifted", "data.dense", on(name, attr("index", "i", 7)))
        yield Case(f"index of {name} dropped", "data.index", on(name, drop_attr("index")))
        yield Case(f"index of {name} is words", "attrs.kind", on(name, attr("index", "s", b"0")))
        yield Case(f"data type of {name} dropped", "data.desc", on(name, assign("output_desc.0.dtype", 0)))
        yield Case(
            f"{name} described differently inside", "data.desc", on(name, assign("input_desc.0.dtype", 3))
        )
        yield Case(
            f"shape of {name} differs inside",
            "data.desc",
            on(name, lambda o: o.input_desc[0].shape.dim.append(3)),
        )
        yield Case(f"output of {name} dropped", "data.desc", on(name, lambda o: o.output_desc.pop()))
    yield Case("two inputs of one index", "data.dense", on("y", attr("index", "i", 0)))


def descriptor_mutations() -> Iterator[Case]:
    for name in ("MatMulV2", "Cast", "SoftmaxV2", "GatherV2"):
        yield Case(
            f"type of an output of {name} unknown", "descs.dtype", on(name, assign("output_desc.0.dtype", 99))
        )
        yield Case(
            f"layout of {name} misspelt", "descs.layout", on(name, assign("output_desc.0.layout", "NDD"))
        )
        yield Case(
            f"size of {name} is -3", "descs.shape", on(name, lambda o: o.output_desc[0].shape.dim.append(-3))
        )
        yield Case(
            f"device of {name} misspelt", "descs.place", on(name, assign("output_desc.0.device_type", "GPU"))
        )
        yield Case(f"format of {name} unknown", "descs.format", on(name, odd_format))
        yield Case(
            f"input of {name} loses its type", "edges.unfed", on(name, assign("input_desc.0.dtype", 0))
        )


def odd_format(target: Any) -> None:
    target.output_desc[0].attr["format_for_int"].i = 99


def graph_mutations() -> Iterator[Case]:
    yield Case("no graph", "model.graph", lambda m: m.ClearField("graph"))
    yield Case("a graph without name", "model.names", lambda m: setattr(m.graph[0], "name", ""))
    yield Case(
        "two graphs of one name", "model.names", lambda m: setattr(m.graph[1], "name", m.graph[2].name)
    )
    yield Case("a subgraph dropped", "subgraphs.name", lambda m: void(m.graph.pop()))
    yield Case("a subgraph renamed", "subgraphs.name", lambda m: setattr(m.graph[1], "name", "elsewhere"))
    yield Case("a subgraph nobody uses", "subgraphs.unused", lambda m: void(m.graph.add(name="stray")))
    yield Case("a branch missing", "subgraphs.count", on("If", lambda o: o.subgraph_name.pop()))
    yield Case("a branch used twice", "subgraphs.shared", on("If", lambda o: twice(o)))
    yield Case(
        "a node takes the main graph", "subgraphs.main", on("If", lambda o: o.subgraph_name.append("main"))
    )
    yield Case("no NetOutput", "output.one", lambda m: void(m.graph[0].op.pop()))
    yield Case(
        "two NetOutputs", "output.one", lambda m: void(m.graph[0].op.add(name="again", type="NetOutput"))
    )
    yield Case("NetOutput of a branch missing", "output.one", lambda m: void(m.graph[1].op.pop()))
    yield Case("placements of other length", "graph.attrs", lambda m: placements(m, "_input_placements", [1]))
    yield Case(
        "output types of other length", "graph.attrs", lambda m: placements(m, "_output_dtypes", [0, 0, 0])
    )


def twice(target: Any) -> None:
    target.subgraph_name[1] = target.subgraph_name[0]


def placements(model: Any, key: str, values: list[int]) -> None:
    model.graph[0].attr[key].list.i.extend(values)
    model.graph[0].attr[key].list.val_type = 2


def harmless_mutations() -> Iterator[Case]:
    """What the loader does not read, infers again, or reads the same."""
    yield Case("model name", None, lambda m: setattr(m, "name", "other"))
    yield Case("model version", None, lambda m: setattr(m, "version", 3))
    yield Case("custom version", None, lambda m: setattr(m, "custom_version", "x"))
    yield Case("nodes in another order", None, lambda m: m.graph[0].op.sort(key=lambda o: o.name))
    yield Case("subgraphs in another order", None, lambda m: m.graph.append(m.graph.pop(1)))
    yield Case("graph input list", None, lambda m: m.graph[0].input.append("x:0"))
    yield Case("an extra control edge", None, on("SoftmaxV2", lambda o: o.input.append("weight:-1")))
    yield Case("a control edge first", None, on("SoftmaxV2", lambda o: o.input.insert(0, "weight:-1")))
    yield Case("a private attribute", None, on("Cast", attr("_note", "s", b"hello")))
    yield Case("fp32 weights change", None, on("weight", lambda o: cut_and_pad(o)))
    yield Case(
        "input_layout_info of TorchAir",
        None,
        on("Cast", lambda o: o.attr["input_layout_info"].list.i.append(0)),
    )
    yield Case("an optional attribute dropped", None, on("MatMulV2", drop_attr("transpose_x2")))
    for name in ("MatMulV2", "SoftmaxV2", "GatherV2", "ConcatV2"):
        yield Case(f"layout of {name} dropped", None, on(name, assign("output_desc.0.layout", "")))
        yield Case(
            f"shape of {name} unknown", None, on(name, lambda o: o.output_desc[0].shape.ClearField("dim"))
        )
        yield Case(
            f"rank of {name} unknown",
            None,
            on(name, lambda o: o.output_desc[0].shape.dim.__setitem__(slice(None), [-2])),
        )
        yield Case(f"name lists of {name} dropped", None, on(name, lambda o: drop_lists(o)))
        yield Case(f"id of {name}", None, on(name, assign("id", 17)))
        yield Case(f"{name} on the host", None, on(name, assign("output_desc.0.device_type", "CPU")))
    for name in CONSTANTS[:3]:
        yield Case(f"output of constant {name} without name", None, on(name, lambda o: nameless(o)))


def cut_and_pad(target: Any) -> None:
    target.attr["value"].t.data = bytes(len(target.attr["value"].t.data))


def drop_lists(target: Any) -> None:
    for key in [k for k in target.attr if k.endswith(("_name_key", "_name_value"))]:
        del target.attr[key]


def nameless(target: Any) -> None:
    target.output_desc[0].name = ""
    drop_lists(target)


CASES = list(mutations())


def test_the_unmutated_file_is_valid() -> None:
    assert verify_model(valid_model()) == []


def test_there_are_more_than_two_hundred_mutations_of_each_label_one() -> None:
    labels = [c.label for c in CASES]
    assert len(labels) == len(set(labels))
    assert len(CASES) > 200


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_mutation(case: Case) -> None:
    model = valid_model()
    case.mutate(model)
    rules = {v.rule for v in verify_model(model)}
    if case.rule is None:
        assert not rules
    else:
        assert case.rule in rules
