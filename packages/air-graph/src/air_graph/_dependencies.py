"""What has to run before a node: its arguments, and earlier nodes that touch the same memory.

A functional graph is ordered by its values alone. Where a node writes, all nodes that touched that memory earlier
come before it, and all that touch it later come after; random draws and side effects keep their order.

Of an operator that is not torch's own nobody knows what else it does: write a cache that it finds in a global, draw
numbers. Such operators keep their order, among themselves and towards draws, effects and what touches the caller's
memory. Inputs that stay where they are (parameters) are taken for memory that no such operator writes.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator

from torch._ops import OpOverload
from torch.fx import Graph, Node

from air_graph._collectives import is_collective
from air_graph._operators import may_keep_state
from air_graph._random import draws_random_numbers
from air_graph._uses import effects_of_node, nodes_of_bodies, uses_of

Roots = frozenset[Node]


def dependencies(graph: Graph, still: Collection[Node] = ()) -> dict[Node, set[Node]]:
    """For each node the nodes that must have run before it; placeholders and the output are left out as keys.

    `still` are the inputs whose memory no operator writes unsaid.
    """
    reader = _Reader(still)
    return {node: reader.read(node) for node in graph.nodes if node.op not in ("placeholder", "output")}


class _Reader:
    def __init__(self, still: Collection[Node]) -> None:
        self._still = frozenset(still)
        self._roots: dict[Node, Roots] = {}
        self._writer: dict[Node, Node] = {}
        self._readers: dict[Node, list[Node]] = {}
        self._last_effect: Node | None = None
        self._last_draw: Node | None = None
        self._last_unknown: Node | None = None
        self._outside: list[Node] = []

    def read(self, node: Node) -> set[Node]:
        before = {value for value in node.all_input_nodes if value.op != "placeholder"}
        if node.op == "get_attr":
            return before
        for root, written in self._touched(node):
            before.update(self._order(node, root, written))
        before.update(self._in_turn(node))
        before.update(self._beside_unknown(node))
        self._roots[node] = self._lives_in(node)
        return before

    def _touched(self, node: Node) -> Iterator[tuple[Node, bool]]:
        for use in uses_of(node):
            if use.reads or use.writes or use.aliases:
                for root in self._roots_of(use.value):
                    yield root, use.writes

    def _roots_of(self, node: Node) -> Roots:
        return self._roots.get(node, frozenset((node,)))

    def _order(self, node: Node, root: Node, written: bool) -> Iterator[Node]:
        writer = self._writer.get(root)
        if writer is not None and writer is not node:
            yield writer
        readers = self._readers.setdefault(root, [])
        if not written:
            readers.append(node)
            return
        yield from (reader for reader in readers if reader is not node)
        self._writer[root] = node
        self._readers[root] = []

    def _is_of_caller(self, value: Node) -> bool:
        """Whether it may lie in memory of the caller's that others may write."""
        return any(root.op == "placeholder" and root not in self._still for root in self._roots_of(value))

    def _beside_unknown(self, node: Node) -> Iterator[Node]:
        if node.target is operator.getitem:  # takes one of several results, and looks at no memory
            return
        if may_keep_state(node.target):
            yield from self._outside
            self._last_unknown, self._outside = node, []
        elif any(self._is_of_caller(use.value) for use in uses_of(node) if use.reads or use.writes):
            if self._last_unknown is not None:
                yield self._last_unknown
            self._outside.append(node)

    def _in_turn(self, node: Node) -> Iterator[Node]:
        if draws_random_numbers(node) or may_keep_state(node.target):
            if self._last_draw is not None:
                yield self._last_draw
            self._last_draw = node
        if _has_effects(node):
            if self._last_effect is not None:
                yield self._last_effect
            self._last_effect = node

    def _lives_in(self, node: Node) -> Roots:
        """The nodes in whose memory the value of this one may be; itself where it makes its own."""
        effects = effects_of_node(node)
        if node.target is operator.getitem:
            (base, *_) = node.all_input_nodes
            return self._roots_of(base)
        found: set[Node] = set()
        for use in uses_of(node):
            if use.aliases or effects.opaque:
                found.update(self._roots_of(use.value))
        if not found or effects.may_copy or effects.opaque or len(effects.returns) > 1:
            found.add(node)
        return frozenset(found)


def _has_effects(node: Node) -> bool:
    """Whether a node does something that no value shows: a print, an assertion, a stream operator, a collective."""
    if node.is_impure() or effects_of_node(node).opaque or may_keep_state(node.target):
        return node.op not in ("placeholder", "output")
    if any(map(_has_effects, nodes_of_bodies(node))):
        return True
    if not isinstance(node.target, OpOverload):
        return False
    return not node.target._schema.returns or is_collective(node.target)
