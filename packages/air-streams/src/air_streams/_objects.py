"""Gives the streams and events of a graph that was kept the names that they have in this process.

    stream_enter("native:npu:0:7")   ->   stream_enter("native:npu:0:1")

The name of a native object means something only in the process that gave it. What Dynamo writes for a function puts its
objects under the same numbers in every process, before the graph runs: by its number an object is found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from air_streams import _library, _native


def rename_objects(gm: GraphModule, objects: Mapping[str, int]) -> None:
    """Renames in place; `objects` is what `normalize` said of the graph. Call it while Dynamo's numbers hold."""
    names = {name: _native.name_of(_native.object_at(number)) for name, number in objects.items()}
    for part in gm.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.nodes:
                _rename(node, names)
            part.recompile()


def _rename(node: Node, names: Mapping[str, str]) -> None:
    if node.target not in _library.STREAM_OPS:
        return

    def renamed(value: Any) -> Any:
        return names.get(value, value) if isinstance(value, str) else value

    node.args, node.kwargs = map_aggregate(node.args, renamed), map_aggregate(node.kwargs, renamed)
