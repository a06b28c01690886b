"""From a graph to the bytes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from air_geir.errors import FileFormatError
from air_geir.file import _bookkeeping as book
from air_geir.file._schema import AttrDef
from air_geir.file._wire import FIXED32, LENGTH, VARINT, block, floats, ints, tags, text, to_float32, varint
from air_geir.ir import Attr, AttrKind, DataType, Graph, Named, Node, TensorDesc, TensorValue
from air_geir.types import INPUT_TYPES, LIST_KINDS

Externalise: TypeAlias = Callable[[Node, TensorValue], "Mapping[str, Attr] | None"]
"""Given a Const, either None (write it in line) or the attributes of the FileConstant that stands for it."""

MODEL_NAME, MODEL_CUSTOM, MODEL_GRAPH, MODEL_ATTR = tags(
    "ModelDef", LENGTH, "name", "custom_version", "graph", "attr"
)
(MODEL_VERSION,) = tags("ModelDef", VARINT, "version")
GRAPH_NAME, GRAPH_OP, GRAPH_ATTR = tags("GraphDef", LENGTH, "name", "op", "attr")
OP_NAME, OP_TYPE, OP_INPUT, OP_ATTR, OP_IN_DESC, OP_OUT_DESC, OP_SUBGRAPH = tags(
    "OpDef", LENGTH, "name", "type", "input", "attr", "input_desc", "output_desc", "subgraph_name"
)
TD_NAME, TD_SHAPE, TD_LAYOUT, TD_ATTR, TD_DEVICE = tags(
    "TensorDescriptor", LENGTH, "name", "shape", "layout", "attr", "device_type"
)
(TD_DTYPE,) = tags("TensorDescriptor", VARINT, "dtype")
(SHAPE_DIM,) = tags("ShapeDef", LENGTH, "dim")
T_DESC, T_DATA = tags("TensorDef", LENGTH, "desc", "data")
NA_NAME, NA_ATTR = tags("NamedAttrs", LENGTH, "name", "attr")
A_LIST, A_S, A_BT, A_FUNC, A_TD, A_T, A_G, A_LLI, A_LLF, A_EXPR = tags(
    "AttrDef", LENGTH,
    "list", "s", "bt", "func", "td", "t", "g", "list_list_int", "list_list_float", "expression",
)  # fmt: skip
A_I, A_B, A_DT = tags("AttrDef", VARINT, "i", "b", "dt")
(A_F,) = tags("AttrDef", FIXED32, "f")
L_S, L_I, L_F, L_B, L_BT, L_TD, L_T, L_G, L_NA, L_DT = tags(
    "AttrDef.ListValue", LENGTH, "s", "i", "f", "b", "bt", "td", "t", "g", "na", "dt"
)
(L_VAL_TYPE,) = tags("AttrDef.ListValue", VARINT, "val_type")
(LLI_ROW,) = tags("AttrDef.ListListInt", LENGTH, "list_list_i")
(LI_I,) = tags("AttrDef.ListListInt.ListInt", LENGTH, "list_i")
(LLF_ROW,) = tags("AttrDef.ListListFloat", LENGTH, "list_list_f")
(LF_F,) = tags("AttrDef.ListListFloat.ListFloat", LENGTH, "list_f")
MAP_KEY, MAP_VALUE = tags("OpDef.AttrEntry", LENGTH, "key", "value")

_LIST_NUMBERS = {kind: number for number, kind in LIST_KINDS.items()}


def encode_model(graph: Graph, externalise: Externalise | None = None) -> bytes:
    """The model that holds this graph and, after it, its subgraphs."""
    parts = [text(MODEL_NAME, graph.name)]
    for number, part in enumerate(_flatten(graph)):
        outside = externalise if number == 0 else None
        parts.append(block(MODEL_GRAPH, encode_graph(part.graph, part.name, outside, part.first_input)))
    parts.append(graph.extra.get("model", b""))
    return b"".join(parts)


class _Part:
    """A graph of a model; `first_input` is the slot of the node around it that its first input stands for."""

    __slots__ = ("first_input", "graph", "name")

    def __init__(self, graph: Graph, name: str, first_input: int | None = None) -> None:
        self.graph = graph
        self.name = name
        self.first_input = first_input


def _flatten(graph: Graph) -> list[_Part]:
    """The main graph first, then every subgraph under the name its node refers to."""
    parts = [_Part(graph, graph.name)]
    at = 0
    while at < len(parts):
        part = parts[at]
        for node in part.graph:
            for key, sub in node.subgraphs.items():
                parts.append(_Part(sub, subgraph_name(part.name, node, key), _first_passed_on(node)))
        at += 1
    return parts


def _first_passed_on(node: Node) -> int:
    """The slot of the first value that a control-flow node hands to its subgraphs: those before it decide."""
    if node.prototype is None or node.prototype.plain_inputs is not None:
        return 0
    return sum(node.arity[:-1])


def subgraph_name(graph_name: str, node: Node, key: str) -> str:
    """The name of a subgraph in the file: unique in the model, the same each time."""
    return f"{graph_name}/{node.name}/{key}"


def encode_graph(
    graph: Graph, name: str, externalise: Externalise | None = None, first_input: int | None = None
) -> bytes:
    """One GraphDef."""
    parts = [text(GRAPH_NAME, name)]
    parts.extend(block(GRAPH_OP, _node(node, name, externalise, first_input)) for node in graph)
    parts.append(_attrs(GRAPH_ATTR, graph.attrs))
    parts.append(graph.extra.get("graph", b""))
    return b"".join(parts)


def _node(node: Node, graph_name: str, externalise: Externalise | None, first_input: int | None) -> bytes:
    op_type, attrs = node.op_type, node.attrs
    if first_input is not None and op_type in INPUT_TYPES:
        attrs = {**attrs, book.PARENT: Attr(AttrKind.INT, int(node.attr("index")) + first_input)}
    if externalise is not None and op_type == "Const":
        outside = externalise(node, attrs["value"].value)
        if outside is not None:
            op_type, attrs = "FileConstant", dict(outside)
    extra = node.extra
    parts = [text(OP_NAME, node.name), text(OP_TYPE, op_type)]
    if op_type not in INPUT_TYPES:
        parts.extend(_edges(node))
    parts.append(_attrs(OP_ATTR, attrs))
    parts.append(_name_lists(node.input_names, tuple(p.name for p in node.outputs)))
    parts.extend(_input_descs(node, first_input is not None))
    for port in node.outputs:
        body = _desc(port.name, _known(port.desc, node.op_type)) + extra.get(f"output_desc:{port.index}", b"")
        parts.append(block(OP_OUT_DESC, body))
    parts.extend(text(OP_SUBGRAPH, subgraph_name(graph_name, node, key)) for key in node.subgraphs)
    parts.append(extra.get("op", b""))
    return b"".join(parts)


def _edges(node: Node) -> list[bytes]:
    """Data edges in slot order, an empty one per optional input not fed, then control edges."""
    edges = [block(OP_INPUT, p.key.encode()) if p is not None else _NO_EDGE for p in node.inputs]
    edges.extend(block(OP_INPUT, f"{other.name}:-1".encode()) for other in node.control_inputs)
    return edges


_NO_EDGE = block(OP_INPUT, b"")


def _input_descs(node: Node, inside: bool) -> list[bytes]:
    extra = node.extra
    parts = []
    for slot, name in enumerate(node.input_names):
        desc = node.outputs[0].desc if node.is_input else node.input_desc(slot)
        body = _unfed(name) if desc is None else _desc(name, _known(desc, node.op_type))
        if inside and node.op_type == "NetOutput":
            body += _entry(TD_ATTR, book.PARENT, Attr(AttrKind.INT, slot))
        parts.append(block(OP_IN_DESC, body + extra.get(f"input_desc:{slot}", b"")))
    return parts


def _known(desc: TensorDesc, op_type: str) -> TensorDesc:
    """The loader takes an undefined type for an input that is not fed, so an unknown one is written as FLOAT."""
    if desc.dtype is DataType.UNDEFINED and op_type not in INPUT_TYPES:
        return desc.with_dtype(DataType.FLOAT)
    return desc


@lru_cache(maxsize=4096)
def _unfed(name: str) -> bytes:
    mark = _entry(TD_ATTR, book.UNFED, Attr(AttrKind.INT, 1))
    return text(TD_NAME, name) + block(TD_SHAPE, b"") + mark


@lru_cache(maxsize=65536)
def _desc(name: str, desc: TensorDesc) -> bytes:
    parts = [text(TD_NAME, name), TD_DTYPE, varint(desc.dtype.value)]
    parts.append(block(TD_SHAPE, ints(SHAPE_DIM, desc.file_shape())))
    parts.append(text(TD_LAYOUT, desc.format.name))
    parts.extend(_entry(TD_ATTR, key, attr) for key, attr in _desc_attrs(desc))
    if desc.placement is not None:
        parts.append(text(TD_DEVICE, desc.placement.device_type))
    return b"".join(parts)


def _desc_attrs(desc: TensorDesc) -> list[tuple[str, Attr]]:
    """What `layout` and `shape` cannot say, in the order of the keys."""
    attrs: list[tuple[str, Attr]] = []
    if desc.format.is_internal:
        attrs.append((book.FORMAT, Attr(AttrKind.INT, int(desc.format))))
    if desc.origin_format is not None:
        attrs.append((book.ORIGIN_FORMAT, Attr(AttrKind.INT, int(desc.origin_format))))
        attrs.append((book.ORIGIN_FORMAT_SET, Attr(AttrKind.BOOL, True)))
    if desc.origin_shape is not None:
        attrs.append((book.ORIGIN_SHAPE, Attr(AttrKind.LIST_INT, desc.origin_shape)))
        attrs.append((book.ORIGIN_SHAPE_SET, Attr(AttrKind.BOOL, True)))
    return attrs


@lru_cache(maxsize=4096)
def _name_lists(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> bytes:
    """The port names, which the engine finds ports by."""
    pairs = (
        (book.INPUT_NAMES, Attr(AttrKind.LIST_STR, inputs)),
        (book.INPUT_SLOTS, Attr(AttrKind.LIST_INT, tuple(range(len(inputs))))),
        (book.OUTPUT_NAMES, Attr(AttrKind.LIST_STR, outputs)),
        (book.OUTPUT_SLOTS, Attr(AttrKind.LIST_INT, tuple(range(len(outputs))))),
    )
    return b"".join(_entry(OP_ATTR, key, attr) for key, attr in pairs)


def _attrs(tag: bytes, attrs: Mapping[str, Attr]) -> bytes:
    return b"".join(_entry(tag, key, attrs[key]) for key in sorted(attrs)) if attrs else b""


def _entry(tag: bytes, key: str, attr: Attr) -> bytes:
    return block(tag, text(MAP_KEY, key) + block(MAP_VALUE, encode_attr(attr)))


def encode_attr(attr: Attr) -> bytes:
    """One AttrDef."""
    return attr.raw or _ATTR[attr.kind](attr.value)


def attr_size(attr: Attr) -> int:
    """How many bytes the attribute takes as protobuf writes it; contents of constants are not copied to count them."""
    if attr.kind is AttrKind.TENSOR:
        held = (len(_desc("", attr.value.desc)) - len(_NO_NAME), attr.value.nbytes)
        inside = sum(len(T_DESC) + len(varint(size)) + size for size in held if size)
        return len(A_T) + len(varint(inside)) + inside
    if attr.kind in _WITH_DESCS:
        return int(AttrDef.FromString(encode_attr(attr)).ByteSize())
    return len(_ATTR[attr.kind](attr.value))


_NO_NAME = text(TD_NAME, "")
"""Written for descriptors that have no name; protobuf leaves it out."""
_WITH_DESCS = (AttrKind.DESC, AttrKind.LIST_DESC, AttrKind.LIST_TENSOR, AttrKind.NAMED, AttrKind.LIST_NAMED)


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _list(kind: AttrKind, elements: Callable[[Sequence[Any]], bytes]) -> Callable[[Sequence[Any]], bytes]:
    mark = L_VAL_TYPE + varint(_LIST_NUMBERS[kind])
    return lambda values: block(A_LIST, elements(values) + mark)


def _blocks(tag: bytes, body: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    return lambda values: b"".join(block(tag, body(v)) for v in values)


def encode_tensor(value: TensorValue) -> bytes:
    """One TensorDef, with the dense bytes of the tensor."""
    data = value.tobytes()
    wanted = value.desc.dtype.nbytes(value.desc.numel or 0)
    if value.desc.dtype.bits and len(data) != wanted and value.desc.dtype.bits >= 8:
        raise FileFormatError(
            f"constant {value.desc} holds {len(data)} bytes, its shape needs {wanted}",
            advice="give it the shape and the type that its bytes have",
        )
    return block(T_DESC, _desc("", value.desc)) + block(T_DATA, data)


def _named(value: Named) -> bytes:
    return text(NA_NAME, value.name) + _attrs(NA_ATTR, value.attrs)


def _nested_graph(value: Graph) -> bytes:
    return encode_graph(value, value.name)


def _anonymous_desc(desc: TensorDesc) -> bytes:
    return _desc("", desc)


_ATTR: Mapping[AttrKind, Callable[[Any], bytes]] = {
    AttrKind.INT: lambda v: A_I + varint(v),
    AttrKind.FLOAT: lambda v: A_F + to_float32(v),
    AttrKind.BOOL: lambda v: A_B + varint(int(v)),
    AttrKind.STR: lambda v: block(A_S, _raw(v)),
    AttrKind.BYTES: lambda v: block(A_BT, v),
    AttrKind.DTYPE: lambda v: A_DT + varint(v.api),
    AttrKind.TENSOR: lambda v: block(A_T, encode_tensor(v)),
    AttrKind.DESC: lambda v: block(A_TD, _anonymous_desc(v)),
    AttrKind.GRAPH: lambda v: block(A_G, _nested_graph(v)),
    AttrKind.NAMED: lambda v: block(A_FUNC, _named(v)),
    AttrKind.EXPRESSION: lambda v: block(A_EXPR, v),
    AttrKind.LIST_STR: _list(AttrKind.LIST_STR, _blocks(L_S, _raw)),
    AttrKind.LIST_INT: _list(AttrKind.LIST_INT, lambda v: ints(L_I, v)),
    AttrKind.LIST_FLOAT: _list(AttrKind.LIST_FLOAT, lambda v: floats(L_F, v)),
    AttrKind.LIST_BOOL: _list(AttrKind.LIST_BOOL, lambda v: ints(L_B, map(int, v))),
    AttrKind.LIST_BYTES: _list(AttrKind.LIST_BYTES, _blocks(L_BT, _raw)),
    AttrKind.LIST_DTYPE: _list(AttrKind.LIST_DTYPE, lambda v: ints(L_DT, (d.api for d in v))),
    AttrKind.LIST_DESC: _list(AttrKind.LIST_DESC, _blocks(L_TD, _anonymous_desc)),
    AttrKind.LIST_TENSOR: _list(AttrKind.LIST_TENSOR, _blocks(L_T, encode_tensor)),
    AttrKind.LIST_GRAPH: _list(AttrKind.LIST_GRAPH, _blocks(L_G, _nested_graph)),
    AttrKind.LIST_NAMED: _list(AttrKind.LIST_NAMED, _blocks(L_NA, _named)),
    AttrKind.LIST_LIST_INT: lambda v: block(A_LLI, b"".join(block(LLI_ROW, ints(LI_I, r)) for r in v)),
    AttrKind.LIST_LIST_FLOAT: lambda v: block(A_LLF, b"".join(block(LLF_ROW, floats(LF_F, r)) for r in v)),
}
