"""Keeps the forward's stream code out of the backward graph.

AOTAutograd's partitioner copies every side effect of the forward into the backward graph too, with whatever
has to be computed again for it: there, nothing runs in those scopes and nothing waits for those events.
"""

from __future__ import annotations

from torch.fx import GraphModule

from air_streams import _library


def drop_forward_copies(gm: GraphModule) -> int:
    """Removes the forward's stream operators from a backward graph, in place; returns how many there were.

    For the backward compiler of AOTAutograd. Stream code which the backward itself runs stays.
    """
    copies = [
        node
        for node in gm.graph.nodes
        if node.target in _library.STREAM_OPS and node.meta.get("partitioner_tag") == "is_forward"
    ]
    for node in reversed(copies):
        gm.graph.erase_node(node)
    if copies:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return len(copies)
