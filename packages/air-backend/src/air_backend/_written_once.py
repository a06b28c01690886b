"""Operators that write what their schema says they read run once in a step of training, where the program runs them.

torch divides a graph into forward and backward by schemas: an operator whose arguments both halves have is computed in
either one that wants it. One that writes would then write twice, or in the forward what the backward writes. Those that
a schema names are kept on their side by torch itself. A collective that is not one of torch's is such an operator too:
the other ranks start it once.
"""

from __future__ import annotations

from typing import Final

from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from air_graph import is_collective, is_functional_collective, writes

TAG: Final = "partitioner_tag"
"""What a node of a joint graph says of its side, in its `meta`."""
_OF_FORWARD: Final = ("is_forward", "must_be_in_forward")


def must_be_in(backward: bool) -> str:
    """The tag of what torch may not put on the other side."""
    return "must_be_in_backward" if backward else "must_be_in_forward"


def keep_on_their_side(graph: fx.Graph) -> None:
    """Marks the writes and the collectives that torch does not see."""
    for node in graph.nodes:
        if stays_on_its_side(node):
            node.meta[TAG] = must_be_in(is_of_backward(node))


def stays_on_its_side(node: fx.Node) -> bool:
    """Whether a node runs once, where it was traced; a checkpoint may say otherwise."""
    return (hides_a_write(node) or _communicates(node)) and "recompute" not in node.meta


def is_of_backward(node: fx.Node) -> bool:
    """Whether a node of a joint graph was traced in the backward; those of an own `backward` have no mark."""
    return node.meta.get(TAG) not in _OF_FORWARD


def hides_a_write(node: fx.Node) -> bool:
    """Whether a node writes what no schema says that it writes."""
    if isinstance(node.target, OpOverload):
        return not node.target._schema.is_mutable and writes(node)
    return isinstance(node.target, HigherOrderOperator) and writes(node)


def _communicates(node: fx.Node) -> bool:
    return is_collective(node.target) and not is_functional_collective(node.target)
