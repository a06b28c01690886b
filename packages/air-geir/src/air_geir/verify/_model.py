"""Rules of a whole file: graphs, names, indices, order, subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from air_geir import prototypes
from air_geir.types import INPUT_TYPES
from air_geir.verify._attrs import check_prototype, check_values
from air_geir.verify._descs import check_desc
from air_geir.verify._ports import (
    check_counts,
    check_edges,
    check_names,
    check_prototype_ports,
    split_edge,
)
from air_geir.verify._special import SPECIAL
from air_geir.verify._violation import Violation

SIZE_LIMIT = 2**31 - 1
"""Bytes of the largest message the loader reads."""

LIST_OF_INTS = 2
"""What a list of integers says it holds; TorchAir's own bookkeeping does not, and is not read by the loader."""


def verify_model(model: Any, *, size: int | None = None) -> list[Violation]:
    """Every rule of the loader that a parsed model breaks; nothing when it loads as it was meant."""
    return list(_model(model, size))


def _model(model: Any, size: int | None) -> Iterator[Violation]:
    if size is not None and size > SIZE_LIMIT:
        yield Violation("model.size", "model", f"{size} bytes, the loader reads less than 2 GiB")
    if not len(model.graph):
        yield Violation("model.graph", "model", "there is no graph")
        return
    names = Counter(g.name for g in model.graph)
    for name, number in names.items():
        if number > 1 or not name:
            yield Violation("model.names", "model", f"graph name {name!r} is empty or stands {number} times")
    yield from check_values(model.attr, "model")
    for graph in model.graph:
        yield from _graph(graph, f"graph {graph.name}")
    yield from _subgraphs(model, names)


def _subgraphs(model: Any, names: Mapping[str, int]) -> Iterator[Violation]:
    used: Counter[str] = Counter()
    for graph in model.graph:
        for op in graph.op:
            used.update(op.subgraph_name)
            for name in op.subgraph_name:
                if name not in names:
                    yield Violation(
                        "subgraphs.name", f"graph {graph.name}, node {op.name}", f"no graph {name!r}"
                    )
    main = model.graph[0].name
    for name in names:
        if used[name] > 1:
            yield Violation("subgraphs.shared", f"graph {name}", "is the subgraph of more than one node")
        if used[name] == 0 and name != main:
            yield Violation("subgraphs.unused", f"graph {name}", "belongs to no node")
    if used[main]:
        yield Violation("subgraphs.main", f"graph {main}", "the main graph is the subgraph of a node")


def _graph(graph: Any, where: str) -> Iterator[Violation]:
    names = Counter(op.name for op in graph.op)
    for name, number in names.items():
        if not name:
            yield Violation("nodes.name", where, "a node has no name")
        elif number > 1:
            yield Violation(
                "nodes.unique", where, f"node name {name!r} stands {number} times: the loader keeps the last"
            )
    outputs = {op.name: len(op.output_desc) for op in graph.op}
    for op in graph.op:
        yield from _node(op, outputs, f"{where}, node {op.name}")
    yield from _inputs(graph, where)
    ends = sum(op.type == "NetOutput" for op in graph.op)
    if ends != 1:
        yield Violation("output.one", where, f"{ends} NetOutput nodes, there must be one")
    yield from _graph_attrs(graph, where)
    yield from _acyclic(graph, where)


def _node(op: Any, outputs: Mapping[str, int], where: str) -> Iterator[Violation]:
    if not op.type:
        yield Violation("nodes.type", where, "has no operator type")
    yield from check_edges(op, outputs, where)
    yield from check_names(op, where)
    yield from check_values(op.attr, where)
    for side in ("input_desc", "output_desc"):
        for number, desc in enumerate(getattr(op, side)):
            yield from check_desc(desc, f"{where}, {side} {number}")
    prototype = prototypes.find(op.type)
    if prototype is not None:
        yield from check_prototype_ports(op, prototype, where)
        yield from check_prototype(op, prototype, where)
        wanted = len(prototype.subgraphs)
        if "branches" not in prototype.subgraphs and len(op.subgraph_name) != wanted:
            yield Violation(
                "subgraphs.count", where, f"{len(op.subgraph_name)} subgraphs, {op.type} has {wanted}"
            )
    yield from check_counts(op, where)
    if op.type in SPECIAL:
        yield from SPECIAL[op.type](op, where)


def _inputs(graph: Any, where: str) -> Iterator[Violation]:
    indices = sorted(op.attr["index"].i for op in graph.op if op.type in INPUT_TYPES and "index" in op.attr)
    if indices != list(range(len(indices))):
        yield Violation(
            "data.dense", where, f"the indices of the graph inputs are {indices}, not 0, 1, 2 and so on"
        )


def _graph_attrs(graph: Any, where: str) -> Iterator[Violation]:
    yield from check_values(graph.attr, where)
    ends = [op for op in graph.op if op.type == "NetOutput"]
    counts = {
        "_input_placements": sum(op.type in INPUT_TYPES for op in graph.op),
        "_output_dtypes": len(ends[0].input_desc) if len(ends) == 1 else None,
    }
    for key, wanted in counts.items():
        read = key in graph.attr and graph.attr[key].list.val_type == LIST_OF_INTS
        if read and wanted is not None and len(graph.attr[key].list.i) != wanted:
            found = len(graph.attr[key].list.i)
            yield Violation("graph.attrs", where, f"{key} has {found} entries, the graph has {wanted}")


def _acyclic(graph: Any, where: str) -> Iterator[Violation]:
    users: dict[str, list[str]] = {op.name: [] for op in graph.op}
    waiting: Counter[str] = Counter()
    for op in graph.op:
        for edge in op.input:
            parts = split_edge(edge)
            if parts is not None and parts[0] in users:
                users[parts[0]].append(op.name)
                waiting[op.name] += 1
    ready = [name for name in users if not waiting[name]]
    seen = 0
    while ready:
        seen += 1
        for user in users[ready.pop()]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if seen != len(users):
        stuck = sorted(name for name, number in waiting.items() if number > 0)
        yield Violation("nodes.cycle", where, f"the edges go in a circle through {', '.join(stuck[:5])}")
