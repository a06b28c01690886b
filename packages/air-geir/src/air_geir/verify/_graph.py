"""Rules of a graph in memory: what must hold before it is written or compiled."""

from __future__ import annotations

from collections.abc import Iterator

from air_geir.ir import DataType, Graph, Node, Port
from air_geir.prototypes import PortKind
from air_geir.verify._ports import COUNTS
from air_geir.verify._violation import Violation


def verify_graph(graph: Graph) -> list[Violation]:
    """Every rule a graph or one of its subgraphs breaks.

    Edges, names and descriptors cannot break file rules by construction; this checks what edits can break: the fit to
    the prototype, order, indices, constants, and that users and uses agree.
    """
    return [v for part in graph.graphs() for v in _graph(part)]


def _graph(graph: Graph) -> Iterator[Violation]:
    where = f"graph {graph.name}"
    if not graph.has_output:
        yield Violation("output.one", where, "there is no NetOutput: call graph.output([...])")
    indices = [int(n.attr("index")) for n in graph.inputs]
    if indices != list(range(len(indices))):
        yield Violation(
            "data.dense", where, f"the indices of the graph inputs are {indices}, not 0, 1, 2 and so on"
        )
    seen: set[Node] = set()
    for node in graph:
        at = f"{where}, node {node.name}" + (f" from {node.origin}" if node.origin else "")
        seen.add(node)
        yield from _node(node, seen, at)


def _node(node: Node, seen: set[Node], where: str) -> Iterator[Violation]:
    for slot, port in enumerate(node.inputs):
        if port is not None:
            yield from _edge(node, slot, port, seen, where)
    for other in node.control_inputs:
        if other not in seen:
            yield Violation("nodes.order", where, f"stands before {other.name}, after which it must run")
    yield from _prototype(node, where)
    if node.is_input and node.output.desc.dtype is DataType.UNDEFINED:
        yield Violation("data.desc", where, "a graph input needs a data type")
    if node.op_type == "NetOutput" and node is not (node.graph.net_output if node.graph else None):
        yield Violation("output.one", where, "is a second NetOutput")


def _edge(node: Node, slot: int, port: Port, seen: set[Node], where: str) -> Iterator[Violation]:
    if port.node.graph is not node.graph:
        yield Violation("edges.producer", where, f"input {slot} comes from {port.key}, which was erased")
    elif port.node not in seen:
        yield Violation("nodes.order", where, f"stands before {port.node.name}, which feeds it")
    if not port.feeds(node, slot):
        yield Violation("edges.uses", where, f"{port.key} does not know that input {slot} takes it")


def _prototype(node: Node, where: str) -> Iterator[Violation]:
    prototype = node.prototype
    if prototype is None:
        return
    for spec, count in zip(prototype.inputs, node.arity, strict=False):
        if spec.kind is PortKind.REQUIRED and not node.is_input:
            start, _ = node.slots_of(spec.name)
            if not count or node.inputs[start] is None:
                yield Violation(
                    "ports.required", where, f"input {spec.name} is required; prototype: {prototype}"
                )
    for attr in prototype.attrs:
        if attr.is_required and attr.name not in node.attrs:
            yield Violation("attrs.required", where, f"needs attribute {attr.name}; prototype: {prototype}")
    known = COUNTS.get(node.op_type)
    if known is not None:
        yield from _count(node, *known, where)


def _count(node: Node, side: str, port: str, key: str, where: str) -> Iterator[Violation]:
    found = len(node.dynamic_input(port)) if side == "input_desc" else len(node.outputs)
    if node.attr(key) != found:
        yield Violation("ports.count", where, f"{key} is {node.attr(key)}, there are {found} {port}")
