"""A copy of a graph, for what changes one and leaves the graph as it came to others."""

from __future__ import annotations

from torch.fx import Graph, GraphModule


def duplicate(module: GraphModule) -> GraphModule:
    """A copy of a graph and of the graphs that it calls; tensors and all other modules are the same."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    copy = GraphModule(module, graph)
    copy.meta = dict(module.meta)
    for name, child in list(copy.named_children()):
        if isinstance(child, GraphModule):
            setattr(copy, name, duplicate(child))
    return copy
