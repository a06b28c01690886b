"""From the bytes of a model to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from google.protobuf.message import DecodeError

from air_geir import prototypes
from air_geir.errors import FileFormatError
from air_geir.file import _bookkeeping as book
from air_geir.file._encode import attr_size
from air_geir.file._schema import ModelDef
from air_geir.ir import (
    Attr,
    AttrKind,
    DataType,
    Dim,
    Format,
    Graph,
    Named,
    Node,
    Placement,
    TensorDesc,
    TensorValue,
    symbol,
)
from air_geir.prototypes import PortKind, Prototype
from air_geir.types import INPUT_TYPES, LIST_KINDS


def parse_model(data: bytes) -> Any:
    """The bytes as a ModelDef message, or an error when they are none."""
    model = ModelDef()
    try:
        model.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError, RuntimeError) as error:
        raise FileFormatError(
            f"these {len(data)} bytes are not an Ascend IR model: {error}",
            advice="check that the file is complete, and an .air file",
        ) from error
    return model


def decode_model(model: Any) -> Graph:
    """The main graph with its subgraphs attached. The model must have passed the verifier."""
    reader = _Reader({g.name: g for g in model.graph})
    graph = reader.graph(model.graph[0])
    graph.extra["model"] = _residue(model, ("name", "graph"))
    return graph


class _Reader:
    def __init__(self, by_name: Mapping[str, Any]) -> None:
        self._by_name = by_name
        self._unknown = count()

    def graph(self, message: Any) -> Graph:
        graph = Graph(message.name)
        nodes = {op.name: self._node(graph, op) for op in message.op}
        for op in message.op:
            self._connect(nodes, op)
        graph.attrs = self._attrs(message.attr)
        graph.extra["graph"] = _residue(message, ("name", "op"), graph.attrs)
        return graph

    def _node(self, graph: Graph, op: Any) -> Node:
        names = [d.name for d in op.input_desc]
        prototype = prototypes.find(op.type)
        arity = _arity(prototype, names)
        node = graph.raw(
            op.name,
            op.type,
            prototype=prototype if arity is not None else None,
            arity=arity or (),
            input_names=names,
            outputs=[(d.name or _only_output(op), self._desc(d, op)) for d in op.output_desc],
        )
        modelled = (*book.NAME_LISTS, book.PARENT)
        node.attrs = {k: v for k, v in self._attrs(op.attr).items() if k not in modelled}
        if op.type not in INPUT_TYPES:
            node.input_descs = {
                i: self._desc(d, op)
                for i, d in enumerate(op.input_desc)
                if d.dtype and book.UNFED not in d.attr
            }
        node.extra = self._extras(op, (*node.attrs, *modelled))
        keys = _subgraph_keys(prototype, len(op.subgraph_name))
        node.subgraphs = {
            key: self.graph(self._by_name[name]) for key, name in zip(keys, op.subgraph_name, strict=True)
        }
        return node

    def _extras(self, op: Any, attrs: Iterable[str]) -> dict[str, bytes]:
        modelled = ("name", "type", "input", "input_desc", "output_desc", "subgraph_name")
        extra = {"op": _residue(op, modelled, attrs)}
        for field in ("input_desc", "output_desc"):
            for i, desc in enumerate(getattr(op, field)):
                extra[f"{field}:{i}"] = _desc_residue(desc)
        return {k: v for k, v in extra.items() if v}

    def _connect(self, nodes: Mapping[str, Node], op: Any) -> None:
        node = nodes[op.name]
        slot = 0
        for edge in op.input:
            name, index = split_edge(edge)
            if index == -1 and name:
                node.run_after(nodes[name])
                continue
            if name and op.type not in INPUT_TYPES:
                own = node.input_descs.get(slot)
                port = nodes[name].outputs[index]
                node.set_input(slot, port)
                if own is not None and not _same(own, port.desc):
                    node.input_descs[slot] = own
            slot += 1

    def _desc(self, message: Any, op: Any) -> TensorDesc:
        attrs = message.attr
        return TensorDesc(
            DataType(message.dtype),
            self._shape(message, op),
            Format(attrs[book.FORMAT].i) if book.FORMAT in attrs else _layout(message.layout),
            Format(attrs[book.ORIGIN_FORMAT].i) if book.ORIGIN_FORMAT in attrs else None,
            tuple(attrs[book.ORIGIN_SHAPE].list.i) if book.ORIGIN_SHAPE in attrs else None,
            _PLACEMENTS.get(message.device_type),
        )

    def _shape(self, message: Any, op: Any) -> tuple[Dim, ...] | None:
        dims = tuple(message.shape.dim)
        if dims == (-2,):
            return None
        if min(dims, default=0) >= 0:
            return dims
        if op.type in INPUT_TYPES:
            stem = f"d{op.attr['index'].i}_"
            return tuple(symbol(f"{stem}{i}") if d < 0 else d for i, d in enumerate(dims))
        return tuple(symbol(f"u{next(self._unknown)}") if d < 0 else d for d in dims)

    def _attrs(self, entries: Mapping[str, Any]) -> dict[str, Attr]:
        found = {key: self._attr(entries[key]) for key in sorted(entries)}
        return {key: attr for key, attr in found.items() if attr is not None}

    def _attr(self, message: Any) -> Attr | None:
        """The attribute, None when the loader would skip it (no value, or a list that does not say of what)."""
        field = message.WhichOneof("value")
        if field is None:
            return None
        if field == "list":
            found = self._list(message.list)
        else:
            kind, convert = _SCALAR_FIELDS[field]
            found = Attr(kind, convert(self, getattr(message, field)))
        if found is None or found.kind in _GRAPHS or message.ByteSize() == attr_size(found):
            return found
        return replace(found, raw=bytes(message.SerializeToString(deterministic=True)))

    def _list(self, message: Any) -> Attr | None:
        known = _LIST_FIELDS.get(message.val_type)
        if known is None:
            return None
        kind, field, convert = known
        return Attr(kind, tuple(convert(self, v) for v in getattr(message, field)))

    def tensor(self, message: Any) -> TensorValue:
        return TensorValue(self._desc(message.desc, _NO_OP), message.data)

    def named(self, message: Any) -> Named:
        return Named(message.name, self._attrs(message.attr))

    def bare_desc(self, message: Any) -> TensorDesc:
        return self._desc(message, _NO_OP)


class _NoOp:
    type = ""


_NO_OP = _NoOp()
_PLACEMENTS = {"CPU": Placement.HOST, "NPU": Placement.DEVICE}


def split_edge(edge: str) -> tuple[str, int]:
    """Producer and output index of an input string; ("", 0) for an optional input not fed."""
    name, colon, index = edge.rpartition(":")
    if not edge:
        return "", 0
    try:
        return (name, int(index)) if colon else (edge, 0)
    except ValueError:
        raise FileFormatError(f"{edge!r} is not an edge", advice="an edge is node:index") from None


def _same(a: TensorDesc, b: TensorDesc) -> bool:
    """Equal as a file tells it: unknown dims have no identity there."""
    return a == b or (a.file_shape() == b.file_shape() and a.with_shape(b.shape) == b)


def _layout(name: str) -> Format:
    return Format[name] if name in Format.__members__ else Format.ND


def _only_output(op: Any) -> str:
    """The name of an output whose descriptor has none (a Const written by TorchAir)."""
    prototype = prototypes.find(op.type)
    return prototype.outputs[0].name if prototype and len(prototype.outputs) == 1 else "y"


def _arity(prototype: Prototype | None, names: list[str]) -> tuple[int, ...] | None:
    """How many slots each input of the prototype has in this file; None when the names do not fit it."""
    if prototype is None:
        return None
    arity: list[int] = []
    at = 0
    for spec in prototype.inputs:
        if spec.kind is not PortKind.DYNAMIC:
            taken = int(at < len(names) and names[at] == spec.name)
        else:
            taken = 0
            while at + taken < len(names) and names[at + taken] == f"{spec.name}{taken}":
                taken += 1
        arity.append(taken)
        at += taken
    return tuple(arity) if at == len(names) else None


def _subgraph_keys(prototype: Prototype | None, number: int) -> list[str]:
    keys = list(prototype.subgraphs) if prototype else []
    return keys if len(keys) == number else [f"branch{i}" for i in range(number)]


def _residue(message: Any, modelled: tuple[str, ...], attrs: Iterable[str] = ()) -> bytes:
    """What a message holds beyond the fields and attributes the IR models, known to the schema or not."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field in modelled:
        rest.ClearField(field)
    for key in attrs:
        rest.attr.pop(key, None)
    return bytes(rest.SerializeToString(deterministic=True))


def _desc_residue(desc: Any) -> bytes:
    return _residue(desc, ("name", "dtype", "shape", "layout", "device_type"), book.DESC_ATTRS)


def _plain(_: _Reader, value: Any) -> Any:
    return value


def _string(_: _Reader, value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_GRAPHS = (AttrKind.GRAPH, AttrKind.LIST_GRAPH)
"""Kinds whose values may change in place, and which keep themselves what they held."""
_Convert = Callable[[_Reader, Any], Any]
_SCALAR_FIELDS: Mapping[str, tuple[AttrKind, _Convert]] = {
    "s": (AttrKind.STR, _string),
    "i": (AttrKind.INT, _plain),
    "f": (AttrKind.FLOAT, _plain),
    "b": (AttrKind.BOOL, _plain),
    "bt": (AttrKind.BYTES, _plain),
    "func": (AttrKind.NAMED, _Reader.named),
    "td": (AttrKind.DESC, _Reader.bare_desc),
    "t": (AttrKind.TENSOR, _Reader.tensor),
    "g": (AttrKind.GRAPH, _Reader.graph),
    "dt": (AttrKind.DTYPE, lambda _, v: DataType.from_api(v)),
    "expression": (AttrKind.EXPRESSION, _plain),
    "list_list_int": (AttrKind.LIST_LIST_INT, lambda _, v: tuple(tuple(r.list_i) for r in v.list_list_i)),
    "list_list_float": (AttrKind.LIST_LIST_FLOAT, lambda _, v: tuple(tuple(r.list_f) for r in v.list_list_f)),
}
_LIST_FIELDS = {
    number: (kind, kind.element.element_field, _SCALAR_FIELDS[kind.element.field][1])
    for number, kind in LIST_KINDS.items()
    if kind.element is not None
}
