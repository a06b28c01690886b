"""Collectives whose results nobody takes, in a graph that is divided into forward and backward.

torch drops such a collective when it divides the graph: no value shows it. The other ranks wait for it all the same,
those that run eagerly, or whose graph takes the result. A node without results that takes the result keeps it while
the graph is divided, on its side. What torch leaves of such a one on the other side goes.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from air_backend._budget import divides
from air_backend._written_once import TAG, keep_on_their_side, must_be_in
from air_graph import is_collective, is_functional_collective, note_saved_results, writes

Halves = tuple[fx.GraphModule, fx.GraphModule]

_OF_BACKWARD: Final = ("is_backward", "must_be_in_backward")
_TAKES: Final = torch.ops.aten._assert_async.msg
"""What torch keeps without asking for a result, on both sides, and does not save."""
_MARK: Final = "a collective whose result is dropped"


def divided(
    joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, is_joined: bool = False, **known: Any
) -> Halves:
    """Forward and backward, by torch's own rule, with every collective of the joint graph.

    The forward notes which of its results are for the backward alone.
    """
    keep_on_their_side(joint.graph)
    lost = _dropped(joint.graph)
    divide = divides(joint.graph, lost=lost, is_joined=is_joined)
    late = _needs_gradients(joint.graph) if lost else set()
    marks = [_taken(node, node in late or node.meta.get(TAG) in _OF_BACKWARD) for node in lost]
    with _computed_again(joint.graph, lost):
        halves = divide(joint, inputs, num_fwd_outputs=num_fwd_outputs, **known)
    for half in halves:
        _without_strays(half)
    if marks:
        for graph in (joint.graph, *(half.graph for half in halves)):
            for node in graph.find_nodes(op="call_function", target=_TAKES):
                if node.args[1] == _MARK:
                    graph.erase_node(node)
        for half in halves:
            half.recompile()
    results = tree_leaves(halves[0].graph.output_node().args[0])
    note_saved_results(halves[0], range(num_fwd_outputs, len(results)))
    return halves


@contextlib.contextmanager
def _computed_again(graph: fx.Graph, lost: list[fx.Node]) -> Iterator[None]:
    """Inside, a checkpoint may repeat collectives whose results are taken: torch refuses what is never dead."""
    never_dead = fx.node._side_effectful_functions
    nodes = [node for node in graph.nodes if node.target in never_dead and _is_collective(node)]
    again = {node.target for node in nodes if "recompute" in node.meta}
    again -= {node.target for node in nodes if node in lost or not node.users or writes(node)}
    never_dead.difference_update(again)
    try:
        yield
    finally:
        never_dead.update(again)


def _without_strays(half: fx.GraphModule) -> None:
    """Takes away what is in a half for a collective that torch has dropped from it: another one that runs already.

    torch takes collectives alone away last, and leaves what one was given. Dropped ones of this half have a mark yet.
    """
    strays = 0
    for node in reversed(half.graph.nodes):
        if node.op == "call_function" and not node.users and _is_stray(node):
            half.graph.erase_node(node)
            strays += 1
    if strays:
        half.recompile()


def _is_stray(node: fx.Node) -> bool:
    """Whether nobody takes it, or does for the sake of a collective that is gone; those of other libraries stay."""
    if is_collective(node.target):
        return is_functional_collective(node.target)
    known = isinstance(node.target, OpOverload) or node.target is operator.getitem
    return known and not node.is_impure() and not writes(node)


def _dropped(graph: fx.Graph) -> list[fx.Node]:
    """The last results of collectives that no result of the graph needs."""
    needed = {graph.output_node()}
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    lost = [node for node in graph.nodes if node not in needed and _is_collective(node)]
    return [node for node in lost if not any(map(_is_collective, node.users)) and _is_tensor(node)]


def _is_collective(node: fx.Node) -> bool:
    return is_collective(node.target)


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _taken(node: fx.Node, of_backward: bool) -> fx.Node:
    """A node that takes this one, on its side."""
    with node.graph.inserting_after(node):
        mark = node.graph.call_function(_TAKES, (node, _MARK))
    mark.meta = {**node.meta, "val": None, TAG: must_be_in(of_backward)}
    return mark


def _needs_gradients(graph: fx.Graph) -> set[fx.Node]:
    """What follows from the gradients of the results: the tag of a node says nothing of an own `backward`."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        given = node.op == "placeholder" and "tangents" in str(node.target)
        if given or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found
