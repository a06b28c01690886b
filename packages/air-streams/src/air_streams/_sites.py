"""A number of its own for each call of a stream operator."""

from __future__ import annotations

from torch.fx import GraphModule

from air_streams import _library


def number_sites(gm: GraphModule) -> None:
    """Gives every stream operator its own `site`, so that no two calls are equal to a later pass."""
    packets = {op.overloadpacket for op in _library.STREAM_OPS}
    site = 0
    for node in gm.graph.nodes:
        if node.op == "call_function" and (node.target in _library.STREAM_OPS or node.target in packets):
            site += 1
            node.kwargs = {**node.kwargs, "site": site}
