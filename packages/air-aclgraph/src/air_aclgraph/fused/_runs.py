"""A run of nodes that may become one region, and which memory it may write.

A region writes arguments of the graph in place, as the graph says, under two rules. Memory that it writes reaches it
once: Inductor takes the inputs of a region for separate memory. And what is written in part, such as a line of a cache,
is not looked at before in the same region: then Inductor writes the line alone, and copies nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from torch.fx import Node

from air_graph import functional_of, link_of, owner_of

#: Writes that reach some elements alone. A copy does where it is given a view.
_IN_PART: Final = ("aten::index_", "aten::scatter", "aten::masked_scatter_", "aten::_unsafe_index_put")


def is_free(node: Node) -> bool:
    """Whether a node only looks at memory that another one made."""
    link = link_of(node)
    return link is not None and link.kind != "same"


def is_write(node: Node) -> bool:
    """Whether a node writes its first argument and gives it back."""
    return written_by(node) is not None


def written_by(node: Node) -> Node | None:
    """The first argument of an operator that writes it, and no other."""
    if functional_of(node.target) is None or not isinstance(node.args[0], Node):
        return None
    return node.args[0]


class Run:
    """Nodes in the order of the graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inside: set[Node] = set()
        self._given: defaultdict[Node, set[Node]] = defaultdict(set)
        """For each memory, the nodes before the run through which it is reached."""
        self._seen: set[Node] = set()
        """Memory that the run has looked at or written."""
        self._written: set[Node] = set()

    def takes(self, node: Node) -> bool:
        """Whether a region may end with this node, after those of the run."""
        wrote, outside = set(self._written), self._outside(node)
        if (written := written_by(node)) is not None:
            memory = owner_of(written)
            if _is_in_part(node) and memory in self._seen:
                return False
            wrote.add(memory)
        return all(
            len(self._given[memory].union(source for source in outside if owner_of(source) is memory)) <= 1
            for memory in wrote
        )

    def add(self, node: Node) -> None:
        for source in self._outside(node):
            self._given[owner_of(source)].add(source)
        if not is_free(node):
            self._seen.update(map(owner_of, node.all_input_nodes))
        if (written := written_by(node)) is not None:
            self._written.add(owner_of(written))
        self.nodes.append(node)
        self.inside.add(node)

    def _outside(self, node: Node) -> list[Node]:
        return [source for source in node.all_input_nodes if source not in self.inside]

    def trimmed(self) -> list[Node]:
        """The run without the views at its ends, but for those of memory that it writes."""
        nodes = self.nodes
        while nodes and is_free(nodes[0]) and owner_of(nodes[0]) not in self._written:
            nodes = nodes[1:]
        while nodes and is_free(nodes[-1]):
            nodes = nodes[:-1]
        return nodes


def _is_in_part(node: Node) -> bool:
    target: Any = node.target
    into: Any = node.args[0]
    return str(target._schema.name).startswith(_IN_PART) or is_free(into)
