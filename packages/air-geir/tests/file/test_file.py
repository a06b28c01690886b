"""Files: bytes that are stable, complete, and equal to what protobuf would write."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from air_geir import file
from air_geir.errors import FileFormatError, VerificationError
from air_geir.file._encode import encode_attr
from air_geir.file._schema import AttrDef, ModelDef, descriptor
from air_geir.ir import (
    Attr,
    AttrKind,
    DataType,
    Format,
    Graph,
    Named,
    Placement,
    TensorDesc,
    TensorValue,
    symbol,
)
from air_geir.verify import verify_model

SCHEMA = Path(file.__file__).parent


def branch(name: str, op_type: str) -> Graph:
    graph = Graph(name)
    x = graph.data("x", TensorDesc(DataType.FLOAT, (2,)))
    graph.output([graph.add(op_type, x, outputs=x.desc)])
    return graph


def rich_graph() -> Graph:
    """A graph that uses every part of the format."""
    graph = Graph("rich")
    f32 = TensorDesc(DataType.FLOAT, (symbol("s0"), 4), placement=Placement.DEVICE)
    x = graph.data("x", f32)
    n = graph.data("n", TensorDesc(DataType.INT64, (), placement=Placement.HOST))
    weight = graph.data(
        "w",
        TensorDesc(DataType.FLOAT16, (1, 1, 16, 16), Format.FRACTAL_NZ, Format.ND, (4, 4)),
        op_type="RefData",
    )
    cast = graph.add("Cast", weight, dst_type=torch.float32, outputs=TensorDesc(DataType.FLOAT, (4, 4)))
    mm = graph.add("MatMulV2", x, cast, transpose_x2=True, outputs=f32)
    cat = graph.add("ConcatV2", [mm, x], graph.const(1), N=2)
    split = graph.add("SplitV", cat, graph.const([4, 4]), n, num_split=2, num_outputs=2)
    chosen = graph.add(
        "If", graph.const(True), [split[0]], num_outputs=1,
        subgraphs={"then_branch": branch("a", "Abs"), "else_branch": branch("b", "Neg")},
    )  # fmt: skip
    show = graph.add("PrintV2", split[1])
    show.set_attr("_kernel", "extend")
    graph.add("StringFormat", [x], template="{}", placeholder="{}")
    graph.attrs["_output_dtypes"] = Attr.of(AttrKind.LIST_INT, [0, 0])
    graph.output([chosen, split[1]], control=[show])
    return graph


def test_the_compiled_schema_is_the_proto_file(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    target = tmp_path / "ge_ir.binpb"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{SCHEMA}",
        f"--descriptor_set_out={target}",
        "ge_ir.proto",
    ]
    subprocess.run(command, check=True, cwd=SCHEMA)
    assert target.read_bytes() == (SCHEMA / "ge_ir.binpb").read_bytes()


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("ModelDef", {"name": 1, "version": 2, "custom_version": 3, "graph": 7, "attr": 11, "attr_groups": 12}),
        ("GraphDef", {"name": 1, "input": 4, "output": 5, "op": 6, "attr": 11, "attr_groups": 12}),
        ("TensorDef", {"desc": 1, "data": 2}),
        ("NamedAttrs", {"name": 1, "attr": 2}),
        (
            "AttrDef",
            {"list": 1, "s": 2, "i": 3, "f": 4, "b": 5, "bt": 7, "func": 10, "td": 11, "t": 12, "g": 13,
             "list_list_int": 14, "dt": 15, "list_list_float": 16, "expression": 17},
        ),
        (
            "AttrDef.ListValue",
            {"s": 2, "i": 3, "f": 4, "b": 5, "bt": 7, "td": 8, "t": 9, "g": 10, "na": 11, "dt": 12, "val_type": 20},
        ),
    ],
)  # fmt: skip
def test_field_numbers_are_those_of_the_loader(message: str, numbers: dict[str, int]) -> None:
    assert {f.name: f.number for f in descriptor(message).fields} == numbers


def test_the_schema_leaves_the_default_pool_alone() -> None:
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("air.geir.ModelDef")


def test_a_graph_survives_the_way_through_a_file(tmp_path: Path) -> None:
    graph = rich_graph()
    written = file.write(graph, tmp_path / "rich.air")
    again = file.read(written[0])
    assert [(n.name, n.op_type) for n in again] == [(n.name, n.op_type) for n in graph]
    for old, new in zip(graph, again, strict=True):
        assert [p and p.key for p in new.inputs] == [p and p.key for p in old.inputs]
        assert [n.name for n in new.control_inputs] == [n.name for n in old.control_inputs]
        assert [p.desc.file_shape() for p in new.outputs] == [p.desc.file_shape() for p in old.outputs]
        assert {k: a.value for k, a in new.attrs.items() if a.kind is not AttrKind.TENSOR} == {
            k: a.value for k, a in old.attrs.items() if a.kind is not AttrKind.TENSOR
        }
        assert set(new.subgraphs) == set(old.subgraphs)
    assert again.node("w").output.desc.format is Format.FRACTAL_NZ
    assert again.node("w").output.desc.origin_shape == (4, 4)


def test_writing_is_byte_stable() -> None:
    data = file.to_bytes(rich_graph())
    assert file.to_bytes(rich_graph()) == data
    assert file.to_bytes(file.from_bytes(data)) == data


def test_subgraphs_say_what_of_the_node_around_them_they_stand_for() -> None:
    model = file.parse_model(file.to_bytes(rich_graph()))
    for graph in model.graph[1:]:
        (data,) = [op for op in graph.op if op.type == "Data"]
        (end,) = [op for op in graph.op if op.type == "NetOutput"]
        assert data.attr["_parent_node_index"].i == 1, "slot 0 of If is the condition"
        assert end.input_desc[0].attr["_parent_node_index"].i == 0
    assert all("_parent_node_index" not in op.attr for op in model.graph[0].op)


def test_the_loader_rules_hold_for_what_is_written() -> None:
    assert verify_model(file.parse_model(file.to_bytes(rich_graph()))) == []


def scalars() -> st.SearchStrategy[Attr]:
    texts = st.text(st.characters(codec="utf-8"), max_size=8)
    ints = st.integers(-(2**63), 2**63 - 1)
    floats = st.floats(width=32, allow_nan=False)
    dtypes = st.sampled_from([d for d in DataType if d.api >= 0])
    values = {
        AttrKind.INT: ints,
        AttrKind.FLOAT: floats,
        AttrKind.BOOL: st.booleans(),
        AttrKind.STR: texts,
        AttrKind.BYTES: st.binary(max_size=8),
        AttrKind.DTYPE: dtypes,
        AttrKind.EXPRESSION: st.binary(max_size=8),
        AttrKind.LIST_INT: st.lists(ints),
        AttrKind.LIST_FLOAT: st.lists(floats),
        AttrKind.LIST_BOOL: st.lists(st.booleans()),
        AttrKind.LIST_STR: st.lists(texts),
        AttrKind.LIST_BYTES: st.lists(st.binary(max_size=8)),
        AttrKind.LIST_DTYPE: st.lists(dtypes),
        AttrKind.LIST_LIST_INT: st.lists(st.lists(ints)),
        AttrKind.LIST_LIST_FLOAT: st.lists(st.lists(floats)),
    }
    return st.one_of([value.map(partial(Attr.of, kind)) for kind, value in values.items()])


@settings(max_examples=200, deadline=None)
@given(scalars())
def test_attributes_are_the_bytes_protobuf_writes_and_reads(attr: Attr) -> None:
    data = encode_attr(attr)
    message = AttrDef()
    message.ParseFromString(data)
    assert message.SerializeToString(deterministic=True) == data


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), scalars(), max_size=5))
def test_attributes_of_any_kind_survive_the_way_through_a_file(attrs: dict[str, Attr]) -> None:
    graph = Graph("g")
    x = graph.data("x", TensorDesc(DataType.FLOAT, (1,)))
    node = graph.add("Abs", x)
    node.attrs.update({f"_{k}": a for k, a in attrs.items()})
    graph.output([node])
    again = file.from_bytes(file.to_bytes(graph)).node("Abs")
    assert {k: a for k, a in again.attrs.items()} == node.attrs


def test_lists_of_strings_say_what_they_hold() -> None:
    for values in ([], ["a", "b"]):
        message = AttrDef()
        message.ParseFromString(encode_attr(Attr.of(AttrKind.LIST_STR, values)))
        assert message.list.val_type == 1


def test_nested_values_survive() -> None:
    desc = TensorDesc(DataType.INT8, (3,))
    values: dict[str, Any] = {
        "_t": Attr(AttrKind.LIST_TENSOR, (TensorValue.of(torch.arange(3)),)),
        "_d": Attr(AttrKind.LIST_DESC, (desc,)),
        "_n": Attr(AttrKind.NAMED, Named("f", {"a": Attr(AttrKind.INT, 1)})),
    }
    graph = Graph("g")
    node = graph.add("Abs", graph.data("x", desc))
    node.attrs.update(values)
    graph.output([node])
    again = file.from_bytes(file.to_bytes(graph)).node("Abs").attrs
    assert torch.equal(again["_t"].value[0].tensor(), torch.arange(3))
    assert again["_d"].value == (desc,)
    assert again["_n"].value == values["_n"].value


def unknown_field(number: int, body: bytes) -> bytes:
    key = number << 3 | 2
    return bytes([key & 127 | 128, key >> 7, len(body)]) + body


@pytest.mark.parametrize("place", ["model", "graph", "op", "input_desc", "output_desc", "known_but_unused"])
def test_what_the_schema_does_not_know_survives(place: str) -> None:
    model = file.parse_model(file.to_bytes(rich_graph()))
    op = next(o for o in model.graph[0].op if o.type == "MatMulV2")
    targets = {
        "model": model,
        "graph": model.graph[0],
        "op": op,
        "input_desc": op.input_desc[0],
        "output_desc": op.output_desc[0],
        "known_but_unused": op,
    }
    if place == "known_but_unused":
        op.workspace_bytes.extend([4096, 1])
        op.id = 7
        op.attr_groups.MergeFromString(unknown_field(2, b"\x0a\x01x"[:0]))
    else:
        targets[place].MergeFromString(unknown_field(1000, b"from the future"))
    data = model.SerializeToString(deterministic=True)
    assert verify_model(file.parse_model(data)) == []
    once = file.to_bytes(file.from_bytes(data))
    expected, found = ModelDef.FromString(data), ModelDef.FromString(once)
    assert found == expected
    assert file.to_bytes(file.from_bytes(once)) == once


@pytest.mark.parametrize("place", ["number", "list", "tensor", "tensor_desc", "named", "nested"])
def test_what_an_attribute_holds_beyond_the_schema_survives(place: str) -> None:
    graph = Graph("g")
    x = graph.data("x", TensorDesc(DataType.FLOAT, (2, 3)))
    y = graph.add("MatMulV2", x, graph.const(torch.randn(4, 3)), transpose_x2=True)
    y.set_attr("_named", Attr(AttrKind.NAMED, Named("n", {"inner": Attr(AttrKind.INT, 3)})))
    y.set_attr("_list", [1, 2])
    graph.output([y])
    model = file.parse_model(file.to_bytes(graph))
    ops = {op.type: op for op in model.graph[0].op}
    attrs, value = ops["MatMulV2"].attr, ops["Const"].attr["value"]
    targets = {
        "number": attrs["transpose_x2"],
        "list": attrs["_list"].list,
        "tensor": value.t,
        "tensor_desc": value.t.desc,
        "named": attrs["_named"].func,
        "nested": attrs["_named"].func.attr["inner"],
    }
    targets[place].MergeFromString(unknown_field(1000, b"from the future"))
    data = model.SerializeToString(deterministic=True)
    read = file.from_bytes(data)
    assert ModelDef.FromString(file.to_bytes(read)) == ModelDef.FromString(data)
    assert file.to_bytes(file.from_bytes(file.to_bytes(read))) == file.to_bytes(read)
    (product,) = read.of_type("MatMulV2")
    product.set_attr("_list", [7])
    again = file.from_bytes(file.to_bytes(read))
    assert next(again.of_type("MatMulV2")).attr("_list") == (7,), "a new value replaces what was read"


def test_large_constants_go_beside_the_file(tmp_path: Path) -> None:
    graph = Graph("g")
    big, small = torch.randn(64, 64), torch.randn(3)
    a, b = graph.const(big.t(), name="layer.weight"), graph.const(small)
    graph.output([a, b])
    written = file.write(graph, tmp_path / "g.air", inline_limit=1000)
    assert [p.name for p in written] == ["g.air", "layer_weight"]
    assert written[1].read_bytes() == big.t().contiguous().numpy().tobytes()
    again = file.read(written[0])
    constant = again.node("layer.weight")
    assert constant.op_type == "FileConstant"
    assert constant.attr("shape") == (64, 64)
    assert constant.attr("dtype") is DataType.FLOAT
    assert constant.attr("file_path") == str(written[1])
    assert a.node.op_type == "Const", "writing does not change the graph"


def test_bytes_that_are_no_model_are_refused() -> None:
    for data in (b"", b"\xff" * 20, b"hello world", struct.pack("<Q", 2**63)):
        with pytest.raises((FileFormatError, VerificationError)):
            file.from_bytes(data)


def test_the_text_form_is_what_protoc_decodes() -> None:
    protoc = shutil.which("protoc")
    command = [protoc] if protoc else [sys.executable, "-m", "grpc_tools.protoc"]
    if protoc is None:
        pytest.importorskip("grpc_tools")
    data = file.to_bytes(rich_graph())
    arguments = [*command, f"-I{SCHEMA}", "--decode=air.geir.ModelDef", "ge_ir.proto"]
    run = subprocess.run(arguments, input=data, capture_output=True, check=True, cwd=SCHEMA)
    assert b'type: "MatMulV2"' in run.stdout


def two_weights(first: float, second: float) -> Graph:
    graph = Graph("g")
    values = {"a.b": first, "a_b": second}
    graph.output(
        [graph.const(torch.full((64, 64), float(value)), name=name) for name, value in values.items()]
    )
    return graph


def held(model: Path) -> list[float]:
    """The first number of each constant of a model, from the file that it refers to."""
    paths = [str(node.attr("file_path")) for node in file.read(model).of_type("FileConstant")]
    return [struct.unpack("f", Path(path).read_bytes()[:4])[0] for path in paths]


def test_no_two_constants_share_a_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one.air", tmp_path / "two.air"
    written = file.write(two_weights(1, 2), one, inline_limit=0)
    assert [path.name for path in written] == ["one.air", "a_b", "one_a_b"]
    assert held(one) == [1, 2]
    written = file.write(two_weights(3, 4), two, inline_limit=0)
    assert [path.name for path in written] == ["two.air", "two_a_b", "two_a_b_1"]
    assert (held(one), held(two)) == ([1, 2], [3, 4])
    for _ in range(2):
        (tmp_path / "broken.air").write_bytes(b"no model")
        written = file.write(two_weights(5, 6), one, inline_limit=0)
        assert [path.name for path in written] == ["one.air", "a_b", "one_a_b"], (
            "its own files are written anew"
        )
    assert (held(one), held(two)) == ([5, 6], [3, 4])


def test_constants_of_a_relative_path_are_made_findable_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    (model, *_) = file.write(two_weights(1, 2), "out/g.air", inline_limit=0)
    whole = file.with_whole_paths(model.read_bytes())
    assert whole is not None
    monkeypatch.chdir("/")
    paths = [str(node.attr("file_path")) for node in file.from_bytes(whole).of_type("FileConstant")]
    assert paths == [str(tmp_path / "out" / "a_b"), str(tmp_path / "out" / "g_a_b")]
    assert file.with_whole_paths(whole) is None
    assert file.with_whole_paths(b"no model: FileConstant") is None


def test_constants_of_a_model_that_was_written_from_another_directory_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(number: float) -> Graph:
        graph = Graph("g")
        graph.output([graph.const(torch.full((2000,), number), name="w")])
        return graph

    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    _, first = file.write(model(1.0), "out/a.air", inline_limit=0)
    monkeypatch.chdir(tmp_path / "out")
    _, second = file.write(model(2.0), "b.air", inline_limit=0)
    assert second.resolve() != (tmp_path / first).resolve()
    assert (tmp_path / first).read_bytes() == torch.full((2000,), 1.0).numpy().tobytes()
