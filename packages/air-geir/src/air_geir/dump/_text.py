"""A graph as text: the file's own fields, TensorFlow's form for viewers, and Python that builds it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format

from air_geir.file import encode_model, parse_model
from air_geir.ir import Attr, AttrKind, DataType, Expr, Graph, Node, Port, TensorDesc, TensorValue

SHOWN_BYTES = 64
"""Constants of more bytes are shown by their size."""


def to_txt(graph: Graph) -> str:
    """The model in protobuf's text form; the bytes of large constants are left out."""
    model = parse_model(encode_model(graph))
    for part in model.graph:
        for op in part.op:
            value = op.attr["value"].t if op.type == "Const" else None
            if value is not None and len(value.data) > SHOWN_BYTES:
                value.data = f"<{len(value.data)} bytes>".encode()
    text: str = text_format.MessageToString(model, as_utf8=True)
    return text


def to_pbtxt(graph: Graph) -> str:
    """A TensorFlow graph in text form, which Netron and TensorBoard draw.

    Attributes are strings; `[i]port` and `[o]port` describe the tensors; a control edge is `^node`.
    """
    parts: list[str] = []
    for part in graph.graphs():
        prefix = "" if part is graph else f"{part.name}/"
        parts.extend(_tf_node(node, prefix) for node in part)
    return "\n".join(parts) + "\nversions {\n  producer: 27\n}\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _tf_node(node: Node, prefix: str) -> str:
    lines = ["node {", f"  name: {_quoted(prefix + node.name)}", f"  op: {_quoted(node.op_type)}"]
    for port in node.inputs:
        if port is not None:
            suffix = f":{port.index}" if port.index else ""
            lines.append(f"  input: {_quoted(prefix + port.node.name + suffix)}")
    lines.extend(f"  input: {_quoted('^' + prefix + other.name)}" for other in node.control_inputs)
    for key, text in _tf_attrs(node):
        lines.append(
            f"  attr {{\n    key: {_quoted(key)}\n    value {{\n      s: {_quoted(text)}\n    }}\n  }}"
        )
    lines.append("}")
    return "\n".join(lines)


def _tf_attrs(node: Node) -> Iterator[tuple[str, str]]:
    for key in sorted(node.attrs):
        yield key, str(node.attrs[key])
    for slot, name in enumerate(node.input_names):
        desc = node.input_desc(slot)
        yield f"[i]{name}", str(desc) if desc is not None else "not fed"
    for port in node.outputs:
        yield f"[o]{port.name}", str(port.desc)
    if node.origin is not None:
        yield "_origin", str(node.origin)


def to_py(graph: Graph) -> str:
    """A Python program that builds the graph again with `air_geir.ir`; run it to get `graph`."""
    writer = _PyWriter()
    body = writer.graph(graph, "graph")
    head = [
        '"""Builds an Ascend IR graph."""',
        "import torch",
        "from air_geir.ir import Attr, AttrKind, DataType, Format, Graph, Placement, TensorDesc, symbol",
        "from air_geir.prototypes import parse",
        "",
    ]
    return "\n".join([*head, *body]) + "\n"


class _PyWriter:
    def __init__(self) -> None:
        self._names: dict[Node, str] = {}
        self._subgraphs = 0

    def graph(self, graph: Graph, name: str) -> list[str]:
        lines = [f"{name} = Graph({graph.name!r})"]
        for node in graph:
            lines.extend(self._node(node, name))
        return lines

    def _node(self, node: Node, graph: str) -> list[str]:
        own = self._names[node] = f"n{len(self._names)}"
        lines = []
        keys = {}
        for key, sub in node.subgraphs.items():
            self._subgraphs += 1
            keys[key] = f"subgraph{self._subgraphs}"
            lines.extend(self.graph(sub, keys[key]))
        lines.append(
            f"{own} = {self._call(node, graph, keys)}" + (f"  # {node.origin}" if node.origin else "")
        )
        extra = {k: a for k, a in node.attrs.items() if not node.prototype or k not in node.prototype.attr}
        lines.extend(f"{own}.set_attr({key!r}, {_attr(attr)})" for key, attr in extra.items())
        return lines

    def _call(self, node: Node, graph: str, keys: dict[str, str]) -> str:
        control = ", ".join(self._names[c] for c in node.control_inputs)
        if node.is_input:
            index = f", {node.attr('index')}, op_type={node.op_type!r}"
            return f"{graph}.data({node.name!r}, {_desc(node.output.desc)}{index}).node"
        if node.op_type == "Const":
            return f"{graph}.const({_tensor(node.attr('value'))}, name={node.name!r}).node"
        if node.op_type == "NetOutput":
            values = ", ".join(self._port(p) for p in node.inputs)
            return f"{graph}.output([{values}], control=[{control}])"
        parts = [
            repr(node.op_type) if node.prototype else f"parse({_prototype(node)!r})",
            *self._inputs(node),
        ]
        known = {k: a for k, a in node.attrs.items() if node.prototype and k in node.prototype.attr}
        if known:
            parts.append("attrs={" + ", ".join(f"{k!r}: {_value(a)}" for k, a in known.items()) + "}")
        parts.append(f"outputs=[{', '.join(_desc(p.desc) for p in node.outputs)}]")
        if keys:
            parts.append("subgraphs={" + ", ".join(f"{k!r}: {v}" for k, v in keys.items()) + "}")
        if control:
            parts.append(f"control=[{control}]")
        return f"{graph}.add({', '.join(parts)}, name={node.name!r})"

    def _inputs(self, node: Node) -> Iterator[str]:
        if node.prototype is None:
            yield from map(self._port, node.inputs)
            return
        for spec in node.prototype.inputs:
            ports = [self._port(p) for p in node.dynamic_input(spec.name)]
            yield f"[{', '.join(ports)}]" if spec.kind.value == "*" else (ports[0] if ports else "None")

    def _port(self, port: Port | None) -> str:
        return "None" if port is None else f"{self._names[port.node]}[{port.index}]"


def _prototype(node: Node) -> str:
    inputs = ", ".join(
        f"{n}?" if p is None else n for n, p in zip(node.input_names, node.inputs, strict=True)
    )
    return f"{node.op_type}({inputs}) -> ({', '.join(p.name for p in node.outputs)})"


def _desc(desc: TensorDesc) -> str:
    if desc == TensorDesc.unknown():
        return "TensorDesc()"
    shape = "None" if desc.shape is None else "(" + "".join(f"{_dim(d)}, " for d in desc.shape) + ")"
    more = "" if desc.format.name == "ND" else f", Format.{desc.format.name}"
    place = "" if desc.placement is None else f", placement=Placement.{desc.placement.name}"
    return f"TensorDesc(DataType.{desc.dtype.name}, {shape}{more}{place})"


def _dim(dim: int | Expr) -> str:
    if isinstance(dim, int):
        return str(dim)
    text = str(dim)
    for name in sorted(dim.symbols(), key=len, reverse=True):
        text = text.replace(name, f"symbol({name!r})")
    return text


def _tensor(value: TensorValue) -> str:
    if value.nbytes > SHOWN_BYTES or not value.desc.dtype.has_torch:
        return f"torch.zeros({list(value.desc.file_shape())}, dtype={value.desc.dtype.torch})"
    return f"torch.tensor({value.tensor().tolist()!r}, dtype={value.desc.dtype.torch})"


def _value(attr: Attr) -> str:
    value: Any = attr.value
    if isinstance(value, DataType):
        return f"DataType.{value.name}"
    if attr.kind is AttrKind.LIST_DTYPE:
        return f"[{', '.join(f'DataType.{d.name}' for d in value)}]"
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _attr(attr: Attr) -> str:
    return f"Attr.of(AttrKind.{attr.kind.name}, {_value(attr)})"
