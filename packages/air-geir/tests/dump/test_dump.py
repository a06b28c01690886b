"""Dumps: what they hold, and that tools can read them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from air_geir import file
from air_geir.dump import WRITERS, dump, dump_path, to_html, to_pbtxt, to_py, to_svg, to_txt
from air_geir.errors import OptionError
from air_geir.file._schema import ModelDef
from air_geir.ir import DataType, Graph, Origin, TensorDesc, symbol
from air_graph.testing import browser

F32 = TensorDesc(DataType.FLOAT, (symbol("s0"), symbol("s0") * 2))


def branch(op_type: str) -> Graph:
    graph = Graph(op_type)
    x = graph.data("x", F32)
    graph.output([graph.add(op_type, x, outputs=F32)])
    return graph


def example(constant: int = 2) -> Graph:
    graph = Graph("example")
    x = graph.data("x", F32)
    with graph.origin_of(Origin("mm", "model.py:3   x @ w")):
        mm = graph.add(
            "MatMulV2", x, graph.const(torch.ones(constant, constant)), transpose_x2=True, outputs=F32
        )
    split = graph.add("SplitV", mm, graph.const([1, 1]), graph.const(1), num_split=2, outputs=[F32, F32])
    split.set_attr("_user_stream_label", 'side "quoted"')
    cast = graph.add("Cast", split[1], dst_type=torch.float16, outputs=TensorDesc(DataType.FLOAT16, None))
    chosen = graph.add(
        "If", graph.const(True), [split[0]], outputs=[F32],
        subgraphs={"then_branch": branch("Abs"), "else_branch": branch("Neg")},
    )  # fmt: skip
    graph.output([cast, chosen], control=[graph.add("PrintV2", x)])
    return graph


def test_txt_is_protobuf_text_of_the_model() -> None:
    graph = example()
    model = text_format.Parse(to_txt(graph), ModelDef())
    assert model == file.parse_model(file.to_bytes(graph))


def test_txt_leaves_out_large_constants() -> None:
    assert "<40000 bytes>" in to_txt(example(100))


def test_G07_py_builds_the_same_bytes_again() -> None:
    graph = example()
    names: dict[str, object] = {}
    exec(to_py(graph), names)
    again = names["graph"]
    assert isinstance(again, Graph)
    assert file.to_bytes(again) == file.to_bytes(graph)


def test_py_rebuilds_operators_without_prototype() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    node = graph.raw("odd", "NobodyKnowsThis", input_names=("a", "b"), outputs=[("c", F32)])
    node.set_input(0, x)
    graph.output([node])
    names: dict[str, object] = {}
    exec(to_py(graph), names)
    again = names["graph"]
    assert isinstance(again, Graph)
    assert repr(again.node("odd")) == repr(node)


def test_pbtxt_is_a_graph_of_tensorflow_form() -> None:
    text = to_pbtxt(example())
    assert text.count("node {") == len(example()) + 6
    assert 'op: "MatMulV2"' in text
    assert 'input: "SplitV:1"' in text
    assert 'input: "^PrintV2"' in text
    assert 'key: "[i]x1"' in text
    assert "model.py:3" in text
    depth = 0
    for line in text.splitlines():
        depth += line.rstrip().endswith("{") - (line.strip() == "}")
    assert depth == 0


def tensorflow_graph() -> Any:
    """The part of TensorFlow's GraphDef that viewers read, as a message."""
    f = descriptor_pb2.FieldDescriptorProto
    rows = {
        "Versions": [("producer", 1, f.TYPE_INT32, False, "")],
        "Value": [("s", 2, f.TYPE_BYTES, False, "")],
        "Entry": [("key", 1, f.TYPE_STRING, False, ""), ("value", 2, f.TYPE_MESSAGE, False, ".t.Value")],
        "Node": [
            ("name", 1, f.TYPE_STRING, False, ""),
            ("op", 2, f.TYPE_STRING, False, ""),
            ("input", 3, f.TYPE_STRING, True, ""),
            ("attr", 5, f.TYPE_MESSAGE, True, ".t.Entry"),
        ],
        "Graph": [
            ("node", 1, f.TYPE_MESSAGE, True, ".t.Node"),
            ("versions", 4, f.TYPE_MESSAGE, False, ".t.Versions"),
        ],
    }
    schema = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    for message, fields in rows.items():
        made = schema.message_type.add(name=message)
        for name, number, kind, repeated, type_name in fields:
            label = f.LABEL_REPEATED if repeated else f.LABEL_OPTIONAL
            made.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    found = pool.FindMessageTypeByName("t.Graph")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)()
    return message_factory.MessageFactory(pool).GetPrototype(found)()  # type: ignore[attr-defined]  # protobuf 3.20


def test_pbtxt_parses_as_what_viewers_read() -> None:
    graph = text_format.Parse(to_pbtxt(example()), tensorflow_graph())
    assert [n.op for n in graph.node][:2] == ["Data", "Const"]
    split = next(n for n in graph.node if n.op == "SplitV")
    assert {e.key: e.value.s for e in split.attr}["_user_stream_label"] == b"'side \"quoted\"'"


def test_svg_draws_every_node_and_edge() -> None:
    graph = example()
    root = ElementTree.fromstring(to_svg(graph))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}g")) == len(graph)
    edges = sum(p is not None for n in graph for p in n.inputs) + sum(len(n.control_inputs) for n in graph)
    assert len(root.findall(f"{space}path")) == edges


def test_svg_boxes_do_not_overlap() -> None:
    space = "{http://www.w3.org/2000/svg}"
    boxes = [r.attrib for r in ElementTree.fromstring(to_svg(example())).iter(f"{space}rect")]
    spans = sorted((float(b["y"]), float(b["x"]), float(b["width"])) for b in boxes)
    for (y, x, width), (next_y, next_x, _) in pairwise(spans):
        assert y != next_y or x + width <= next_x


def test_html_holds_the_subgraphs_and_nothing_from_elsewhere() -> None:
    page = to_html(example())
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\(", page)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    pictures = json.loads(found[1])["views"][0]["pictures"]
    assert [len(picture["names"]) for picture in pictures] == [len(part) for part in example().graphs()]
    main = pictures[0]
    at = main["operators"].index("MatMulV2")
    (place,) = [node for node, operator in enumerate(main["operator"]) if operator == at]
    assert len(main["inputs"][place]) == 2
    assert main["source"][place] == 0
    assert json.loads(found[1])["sources"] == [["model.py", 3, "x @ w"]]


@pytest.mark.skipif(browser.find() is None, reason="needs a chromium executable on PATH")
def test_a_browser_shows_each_subgraph_and_a_node_of_it(tmp_path: Path) -> None:
    page = dump(example(), tmp_path / "graph.html")
    with browser.Browser() as opened:
        tab = opened.open(page)
        assert tab.ask("[...document.querySelectorAll('select option')].map(each => each.innerText)") == [
            part.name if part.name == "example" else f"example: {part.name}" for part in example().graphs()
        ]
        tab.ask("void airPage.made.graph.reveal(airPage.made.graph.picture.names.indexOf('SplitV'))")
        assert "_user_stream_label" in tab.ask("document.querySelector('.panel').innerText")
        assert tab.overflows == 0
        assert tab.complaints == []


@pytest.mark.parametrize("kind", WRITERS)
def test_the_ending_says_what_is_written(kind: str, tmp_path: Path) -> None:
    path = dump_path(tmp_path, "optimized", kind)
    assert dump(example(), path).stat().st_size > 100
    assert path.name.startswith("dynamo_optimized_graph_")


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no known ending"):
        dump(example(), tmp_path / "graph.dot")
