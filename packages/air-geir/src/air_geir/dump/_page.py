"""An Ascend IR graph as views of a page: searched, zoomed and folded by module, with each node's line."""

from __future__ import annotations

from typing import Final

from air_geir.ir import Graph, Node
from air_geir.prototypes import family
from air_graph.page import Page, PageNode, Picture

_KINDS: Final = {
    "attention": "heavy",
    "convolution": "heavy",
    "matmul": "heavy",
    "collectives": "heavy",
    "activation": "pointwise",
    "arithmetic": "pointwise",
    "comparison": "pointwise",
    "elementwise": "pointwise",
    "normalization": "reduce",
    "reduction": "reduce",
    "shapes": "view",
}
"""Family of an operator -> what colours tell apart on a page."""
_TYPES: Final = {
    "Data": "input",
    "RefData": "input",
    "Const": "input",
    "Constant": "input",
    "NetOutput": "output",
}


def to_html(graph: Graph) -> str:
    """A page with the graph and each subgraph; needs nothing from elsewhere."""
    page = Page(graph.name)
    page.graphs(pictures_of(graph))
    page.add("source", "Source")
    return page.html()


def pictures_of(graph: Graph, title: str = "") -> list[Picture]:
    """The graph and its subgraphs."""
    return [
        Picture(
            f"{title or graph.name}" if part is graph else f"{title or graph.name}: {part.name}",
            _drawn(part),
            f"{len(part)} Ascend IR nodes. For Netron: `air_geir.dump.dump(graph, 'graph.pbtxt')`.",
        )
        for part in graph.graphs()
    ]


def _drawn(graph: Graph) -> list[PageNode]:
    at = {node: place for place, node in enumerate(graph)}
    return [
        PageNode(
            node.name,
            node.op_type,
            _TYPES.get(node.op_type) or _KINDS.get(family(node.op_type) or "", "other"),
            tuple(at[before] for before in node.predecessors if before in at),
            "" if node.origin is None else node.origin.module,
            "" if node.origin is None else node.origin.source or "",
            "\n".join(
                [*(str(port.desc) for port in node.outputs), *(f"{k} = {a}" for k, a in node.attrs.items())]
            )[:600],
            _bytes(node),
        )
        for node in graph
    ]


def _bytes(node: Node) -> int:
    if node.op_type in _TYPES:
        return 0
    sizes = [(port.desc.dtype, port.desc.numel) for port in node.outputs]
    return sum(dtype.nbytes(numel) for dtype, numel in sizes if numel is not None)
