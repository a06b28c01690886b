"""Which memory the results of a graph use in eager: asked before passes let values share memory.

y = x * 2;  return y, y.t()       autograd lets a caller write to `y`; what is a view in eager may stay a view
return y.t(), y.detach()          `y.t()` is differentiable, and what was detached is not, nor is it a view
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from air_graph._links import link_of, links_of, owner_of

_NOTED: Final = "air_owning_results"


class Ownership(NamedTuple):
    """What one result of a graph is to the others."""

    place: int
    base: int
    """The place of the result that it is a view of, its own where it is no view; below zero, a number for the value
    that it is a view of, where that is no result."""
    owns: bool
    """Whether its memory is its own; what is detached from a value lies in that one's, and is no view."""
    is_detached: bool = False
    """Whether it lies in memory of a value that it was detached from: that one may have gradients, and it has none."""

    @property
    def is_view(self) -> bool:
        return self.place != self.base


def note_owning_results(gm: GraphModule) -> None:
    """Keeps the answer with the output of the graph."""
    gm.graph.output_node().meta[_NOTED] = _current(gm)


def owning_results(gm: GraphModule) -> tuple[Ownership, ...]:
    """Of each result, what it was to the others when that was noted; as it is now where nothing was noted."""
    noted: tuple[Ownership, ...] = gm.graph.output_node().meta.get(_NOTED, ())
    current = _current(gm)
    return noted if len(noted) == len(current) else current


def restore_detached(gm: GraphModule) -> None:
    """Detaches results again that passes have replaced by views of what they were detached from.

    Where another result lies in the same memory: that one may have a gradient, and a view of it would have one as well.
    """
    output = gm.graph.output_node()
    leaves, structure = tree_flatten(output.args[0])
    owners = {place: owner_of(leaf) for place, leaf in enumerate(leaves) if isinstance(leaf, Node)}
    shared, now = Counter(owners.values()), _current(gm)
    noted = ((place, one) for place, one in enumerate(owning_results(gm)) if place in owners)
    wanted = [
        place
        for place, one in noted
        if one.is_detached and not now[place].is_detached and shared[owners[place]] > 1
    ]
    if not wanted:
        return
    with gm.graph.inserting_before(output):
        for place in wanted:
            detached = gm.graph.call_function(torch.ops.aten.detach.default, (leaves[place],))
            detached.meta = dict(leaves[place].meta)
            leaves[place] = detached
    output.args = (tree_unflatten(leaves, structure),)
    gm.recompile()


def _current(gm: GraphModule) -> tuple[Ownership, ...]:
    returned: Any = gm.graph.output_node().args[0]
    leaves = tree_leaves(returned)
    places: dict[Node, int] = {}
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Node):
            places.setdefault(leaf, place)
    found = []
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Node):
            found.append(Ownership(place, place, False))
            continue
        base, is_detached = _base_of(leaf)
        at = place if base is None else places.setdefault(base, -1 - len(places))
        found.append(Ownership(place, at, link_of(leaf) is None, is_detached))
    return tuple(found)


def _base_of(node: Node) -> tuple[Node | None, bool]:
    """The value that this one is a view of for autograd, None when it is none; and whether something is detached."""
    base, is_view, is_detached = node, False, False
    for link in links_of(node):
        if link.node.target is torch.ops.aten.detach.default:
            is_detached = True
            break
        base, is_view = link.base, is_view or link.kind != "same"
    return base if is_view else None, is_detached
