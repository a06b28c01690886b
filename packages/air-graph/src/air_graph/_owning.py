"""Which results of a graph own their memory in eager: asked before passes let values live in each other's.

y = x * 2;  return y, y.t()       # autograd lets a caller write to `y`; what is a view in eager may stay a view
"""

from __future__ import annotations

from typing import Any, Final

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_graph._links import link_of

_NOTED: Final = "air_owning_results"


def note_owning_results(gm: GraphModule) -> None:
    """Keeps the answer with the output of the graph."""
    gm.graph.output_node().meta[_NOTED] = _now(gm)


def owning_results(gm: GraphModule) -> tuple[bool, ...]:
    """Of each result, whether it owned its memory when that was noted; as it is now where nothing was noted."""
    noted: tuple[bool, ...] = gm.graph.output_node().meta.get(_NOTED, ())
    now = _now(gm)
    return noted if len(noted) == len(now) else now


def _now(gm: GraphModule) -> tuple[bool, ...]:
    returned: Any = gm.graph.output_node().args[0]
    return tuple(isinstance(leaf, Node) and link_of(leaf) is None for leaf in tree_leaves(returned))
