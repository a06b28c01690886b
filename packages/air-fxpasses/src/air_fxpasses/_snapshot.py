"""Restores a graph module, keeping node objects where they still exist.

A pass edits the graph in place. Node identity matters to code that holds facts about the nodes (an ordering,
a stream plan), so a failed pass is undone by putting nodes back rather than by swapping the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node
from torch.fx.node import map_arg


@dataclass(slots=True)
class _Saved:
    node: Node
    op: str
    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: dict[str, Any]
    type_: Any


def _saved(node: Node, known: _Saved | None) -> _Saved:
    """The row of a node; the one of an earlier snapshot where nothing about the node has changed."""
    if known is not None and (
        known.target is node.target
        and known.args is node.args
        and known.kwargs is node.kwargs
        and known.meta.get("val") is node.meta.get("val")
        and len(known.meta) == len(node.meta)
    ):
        return known
    return _Saved(node, node.op, node.name, node.target, node.args, node.kwargs, dict(node.meta), node.type)


class Snapshot:
    """The nodes of a graph module and its attributes at one moment."""

    def __init__(self, gm: GraphModule, previous: Snapshot | None = None) -> None:
        self._gm = gm
        known = {} if previous is None else {saved.node: saved for saved in previous._nodes}
        self._nodes: list[_Saved] = [_saved(node, known.get(node)) for node in gm.graph.nodes]
        self._dict = dict(gm.__dict__)
        self._tables = {key: dict(gm.__dict__[key]) for key in ("_parameters", "_buffers", "_modules")}

    def is_unchanged(self) -> bool:
        """Whether the graph still consists of the same calls in the same order."""
        nodes = list(self._gm.graph.nodes)
        return len(nodes) == len(self._nodes) and all(
            n is s.node and n.target is s.target and n.args is s.args and n.kwargs is s.kwargs
            for n, s in zip(nodes, self._nodes, strict=True)
        )

    def restore(self) -> dict[Node, Node]:
        """Puts everything back; tells which nodes had to be made again (new node by erased node)."""
        graph = self._gm.graph
        if "_graph" in self._dict and graph is not self._dict["_graph"]:
            self._gm.graph = graph = self._dict["_graph"]
        alive = set(graph.nodes)
        wanted = {s.node for s in self._nodes}
        intruders = [n for n in alive if n not in wanted]
        for node in alive:
            node.args, node.kwargs = (), {}
        for node in intruders:
            graph.erase_node(node)
        now: dict[Node, Node] = {}
        for saved in self._nodes:
            now[saved.node] = saved.node if saved.node in alive else self._recreated(saved)
        for saved in self._nodes:
            self._put_back(saved, now)
        self._restore_attributes()
        return {old: new for old, new in now.items() if old is not new}

    def _recreated(self, saved: _Saved) -> Node:
        node = self._gm.graph.create_node(saved.op, saved.target, type_expr=saved.type_)
        node.name = saved.name
        return node

    def _put_back(self, saved: _Saved, now: dict[Node, Node]) -> None:
        node = now[saved.node]
        self._gm.graph._root.prepend(node)
        node.op, node.target, node.type = saved.op, saved.target, saved.type_
        args, kwargs = map_arg((saved.args, saved.kwargs), lambda n: now.get(n, n))
        node.args, node.kwargs = args, kwargs
        node.meta.clear()
        node.meta.update(saved.meta)

    def _restore_attributes(self) -> None:
        for key, table in self._tables.items():
            current = self._gm.__dict__[key]
            current.clear()
            current.update(table)
