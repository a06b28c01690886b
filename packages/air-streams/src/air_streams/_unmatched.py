"""Scopes that do not nest within one graph: their graph runs on one stream, in the order of the program, as eager does.

    with npu_stream_switch("1"):      graph 0: ends inside the block
        y = x * 2
        print(y)                      eagerly                          what is left of it: y = x * 2, y + 3
        z = y + 3                     graph 1: leaves a block that it did not enter

Dynamo cuts a block at a graph break, at a context that was made before the call, and where a generator stops inside.
Outside of a graph a block does nothing, and in order everything is right. A core limit is different: eager code inside
the block is limited. So what a graph enters or leaves alone is done by the host, when the graph has been started.
"""

from __future__ import annotations

from typing import Any, Final

from torch.fx import GraphModule, Node

from air_graph import calling_line, has_line, place_of, source_of, warn_at
from air_streams import _library
from air_streams.errors import ScopeIgnored

Limits = tuple[tuple[int, int] | None, ...]
"""Core limits that a graph enters, AI cores and vector cores, and None for one that it leaves, in order."""

_ENDS: Final[dict[Any, Any]] = {
    _library.STREAM_ENTER: _library.STREAM_EXIT,
    _library.CORE_LIMIT_ENTER: _library.CORE_LIMIT_EXIT,
    _library.ATTRIBUTES_ENTER: _library.ATTRIBUTES_EXIT,
}
_EXITS: Final = frozenset(_ENDS.values())
_LIMITS: Final = frozenset((_library.CORE_LIMIT_ENTER, _library.CORE_LIMIT_EXIT))


def take_out_unmatched(gm: GraphModule) -> Limits:
    """Takes scopes that do not nest out of a graph, with a warning; the core limits that the host has to see to."""
    scopes = [node for node in gm.graph.nodes if _op(node) in _ENDS or _op(node) in _EXITS]
    first = _first_unmatched(scopes)
    if first is None:
        return ()
    limits = [node for node in scopes if _op(node) in _LIMITS]
    alone = _without_partner(limits)
    rest = [node for node in scopes if node not in alone]
    dead = alone if _first_unmatched(rest) is None else alone + [n for n in rest if n not in limits]
    _warn(gm, first)
    for node in dead:
        gm.graph.erase_node(node)
    gm.recompile()
    return tuple(_cores(node) for node in alone)


def _op(node: Node) -> Any:
    """The operator, which Dynamo writes without its overload."""
    return getattr(node.target, "default", node.target) if node.op == "call_function" else None


def _first_unmatched(scopes: list[Node]) -> Node | None:
    """A node that keeps these scopes from nesting."""
    opened: list[Node] = []
    for node in scopes:
        if _op(node) in _ENDS:
            opened.append(node)
        elif not opened or not _belong(opened.pop(), node):
            return node
    return opened[0] if opened else None


def _belong(entered: Node, left: Node) -> bool:
    if _ENDS[_op(entered)] is not _op(left):
        return False
    return _op(left) is not _library.STREAM_EXIT or entered.args[0] == left.args[0]


def _without_partner(limits: list[Node]) -> list[Node]:
    """Those that the graph only enters, or only leaves; of a thread the last one that was entered is left."""
    opened: list[Node] = []
    alone: list[Node] = []
    for node in limits:
        if _op(node) is _library.CORE_LIMIT_ENTER:
            opened.append(node)
        elif opened:
            opened.pop()
        else:
            alone.append(node)
    return alone + opened


def _cores(node: Node) -> tuple[int, int] | None:
    if _op(node) is _library.CORE_LIMIT_EXIT:
        return None
    aicore, vectorcore = node.args[:2]
    assert isinstance(aicore, int)
    assert isinstance(vectorcore, int)
    return aicore, vectorcore


def _warn(gm: GraphModule, first: Node) -> None:
    """Names the block at the user's line: that of what follows in the graph, where Dynamo entered it by itself."""
    nodes = list(gm.graph.nodes)
    named = next((node for node in nodes[nodes.index(first) :] if has_line(node)), None)
    place = place_of(named) if named is not None else calling_line() or place_of(first)
    text = (
        "blocks of streams, core limits or attributes are ignored: this graph enters or leaves one of them alone (a "
        "graph break inside it, a context made before the call, a generator that stops inside), so the graph runs on "
        f"one stream in the order of the program\n  at {place}\n"
        "  keep each block in one graph (fullgraph=True shows the break), and make its context in the `with` statement"
    )
    warn_at(source_of(named or first), ScopeIgnored(text), "air_streams")
