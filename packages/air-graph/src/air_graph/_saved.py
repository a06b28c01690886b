"""Which results of the forward half of a training step no caller ever sees.

Autograd has them from the call until the backward half has run, which alone reads them; or they go from one piece of
the half to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_graph._links import owner_of

SAVED_RESULTS: Final = "air_saved_results"
"""Under this name the output of a graph has them, among its metadata."""


def note_saved_results(gm: GraphModule, places: Iterable[int]) -> None:
    """Keeps the places of these results with the output of the graph."""
    gm.graph.output_node().meta[SAVED_RESULTS] = frozenset(places)


def saved_results(gm: GraphModule) -> frozenset[int] | None:
    """The places of these results; None where the graph is no forward half, or nothing is known of it."""
    noted: frozenset[int] | None = gm.graph.output_node().meta.get(SAVED_RESULTS)
    return noted


def note_saved_results_of_part(gm: GraphModule, part: GraphModule, results: Sequence[Node]) -> None:
    """The same for a part of a graph, of which these nodes are the results."""
    saved = saved_results(gm)
    if saved is None:
        return
    returned: Any = gm.graph.output_node().args[0]
    leaves = enumerate(tree_leaves(returned))
    seen = {owner_of(leaf) for place, leaf in leaves if place not in saved and isinstance(leaf, Node)}
    note_saved_results(part, (place for place, node in enumerate(results) if owner_of(node) not in seen))
