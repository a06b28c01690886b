"""Runs products that read one matrix at the same time, as query, key and value of an attention do.

    q = mm(x, wq)                 event_record("air:products")
    ...                           stream_enter("air:products:1"); event_wait("air:products")
    k = mm(x, wk)          ->     k = mm(x, wk); event_record("air:products:1"); stream_exit(…)
                                  q = mm(x, wq)
                                  event_wait("air:products:1")
                                  ...

A product of few rows reads its matrix with a part of the device and waits for memory most of the time; several at once
take as long as one. What is moved up is the product and the views it is given; nothing is, where memory that it
reads is written in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from air_graph import StorageKey, effects_of_node, hint_of, storage_key, uses_of
from air_streams import _library

aten = torch.ops.aten

_FACTOR: Final = {
    aten.mm.default: 0, aten.matmul.default: 0, aten.linear.default: 0, aten.addmm.default: 1,
}  # fmt: skip
"""Where each product has the matrix that others may read as well."""
MOST_ROWS: Final = 64
"""Products of more rows fill a device one by one."""
MOST_AT_ONCE: Final = 4
_READY: Final = "air:products"


def products_side_by_side(gm: GraphModule) -> int:
    """Puts streams round such products in a graph without streams of its own; says how many run beside another one."""
    graph = gm.graph
    if any(node.target in _library.STREAM_OPS for node in graph.nodes):
        return 0
    moved = sum(_beside(graph, group) for group in _groups(graph))
    if moved:
        graph.lint()
        gm.recompile()
    return moved


def _groups(graph: Graph) -> list[list[Node]]:
    """Products of the same matrix, in the order of the graph."""
    groups: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        place = _FACTOR.get(node.target) if node.op == "call_function" else None
        if place is not None and _has_few_rows(node) and isinstance(factor := node.args[place], Node):
            groups.setdefault(factor, []).append(node)
    return [group for group in groups.values() if len(group) > 1]


def _has_few_rows(product: Node) -> bool:
    value = _value(product)
    if not isinstance(value, Tensor) or value.dim() < 2:
        return False
    sizes = [hint_of(size) for size in value.shape[:-1]]
    rows = math.prod(MOST_ROWS + 1 if size is None else size for size in sizes)
    return 0 < rows <= MOST_ROWS


def _beside(graph: Graph, group: Sequence[Node]) -> int:
    """Moves products to the first of their group, each onto a stream of its own; says how many there were."""
    first, *others = group
    movable: list[tuple[Node, list[Node]]] = []
    for product in others:
        views = _moved_with(product, first)
        if views is not None and len(movable) < MOST_AT_ONCE - 1:
            movable.append((product, views))
    if not movable:
        return 0
    _called(graph, first, _library.EVENT_RECORD, _READY)
    for number, (product, views) in zip(count(1), movable):
        tag = f"{_READY}:{number}"
        for view in views:
            if first < view:  # not moved with the product before
                first.prepend(view)
        _called(graph, first, _library.STREAM_ENTER, tag)
        _called(graph, first, _library.EVENT_WAIT, _READY)
        first.prepend(product)
        _called(graph, first, _library.EVENT_RECORD, tag)
        _called(graph, first, _library.STREAM_EXIT, tag)
    behind = first.next
    for number in range(1, len(movable) + 1):
        _called(graph, behind, _library.EVENT_WAIT, f"{_READY}:{number}", of=first)
    return len(movable)


def _called(graph: Graph, before: Node, target: OpOverload, name: str, of: Node | None = None) -> None:
    """A stream operator in front of a node, with the line of the product that it is for."""
    with graph.inserting_before(before):
        node = graph.call_function(target, (name,))
    node.meta = {
        "val": None,
        **{key: value for key, value in (of or before).meta.items() if key == "stack_trace"},
    }


def _moved_with(product: Node, first: Node) -> list[Node] | None:
    """The views to move in front of `first` with a product, in order; None where it has to stay where it is."""
    needed: list[Node] = []
    waiting = [source for source in product.all_input_nodes if first < source]
    while waiting:
        node = waiting.pop()
        if not _is_view(node):
            return None
        needed.append(node)
        waiting += [source for source in node.all_input_nodes if first < source and source not in needed]
    read = {key for node in (product, *needed) for source in node.all_input_nodes if (key := _memory(source))}
    return None if _is_written(read, first, product) else sorted(set(needed))


def _is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.is_view and isinstance(_value(node), Tensor)


def _is_written(read: Iterable[StorageKey], start: Node, end: Node) -> bool:
    """Whether an operator between two nodes may write one of these storages."""
    wanted, node = set(read), start.next
    while node is not end:
        if effects_of_node(node).is_unsure:
            return True
        if any(use.writes and _memory(use.value) in wanted for use in uses_of(node)):
            return True
        node = node.next
    return False


def _memory(node: Node) -> StorageKey | None:
    value = _value(node)
    return storage_key(value) if isinstance(value, Tensor) else None


def _value(node: Node) -> Any:
    return node.meta.get("val")
