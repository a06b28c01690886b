"""A small graph as one SVG: layers from top to bottom. A large one is read on the page that `_page` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from air_geir.ir import Graph, Node, topological
from air_geir.prototypes import family

BOX_HEIGHT, BOX_GAP, LAYER_GAP, CHAR = 34, 18, 46, 6.6
_COLOURS = {
    "control": "#64748b",
    "creation": "#94a3b8",
    "matmul": "#2563eb",
    "convolution": "#2563eb",
    "attention": "#7c3aed",
    "normalization": "#059669",
    "reduction": "#d97706",
    "shapes": "#a8a29e",
    "indexing": "#b45309",
    "collectives": "#be123c",
    "random": "#db2777",
}
_PLAIN = "#0f766e"


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn."""

    x: float
    y: float
    width: float


def to_svg(graph: Graph) -> str:
    """The drawing; hovering a node shows its ports, attributes and the line of the user's program."""
    boxes = _layout(graph)
    width = max((b.x + b.width for b in boxes.values()), default=0) + BOX_GAP
    height = max((b.y for b in boxes.values()), default=0) + BOX_HEIGHT + BOX_GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#78716c"/></marker></defs>',
    ]
    for node in graph:
        parts.extend(_edges(node, boxes))
    parts.extend(_node(node, boxes[node]) for node in graph)
    return "\n".join([*parts, "</svg>"])


def _label(node: Node) -> str:
    return node.op_type if node.name == node.op_type else f"{node.op_type}  {node.name}"


def _layout(graph: Graph) -> Mapping[Node, Box]:
    """Longest-path layers; within a layer nodes stand near the middle of what feeds them."""
    depth: dict[Node, int] = {}
    for node in topological(graph):
        depth[node] = max((depth[p] + 1 for p in node.predecessors), default=0)
    for node in graph:
        if not any(True for _ in node.predecessors):
            depth[node] = max(min((depth[s] for s in node.successors), default=1) - 1, 0)
    layers: list[list[Node]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in graph:
        layers[depth[node]].append(node)
    boxes: dict[Node, Box] = {}
    for number, layer in enumerate(layers):
        _place(layer, number, boxes)
    return boxes


def _place(layer: Sequence[Node], number: int, boxes: dict[Node, Box]) -> None:
    def wish(node: Node) -> float:
        feeding = [boxes[p].x + boxes[p].width / 2 for p in node.predecessors if p in boxes]
        return sum(feeding) / len(feeding) if feeding else 0.0

    x = float(BOX_GAP)
    for node in sorted(layer, key=wish):
        width = len(_label(node)) * CHAR + 16
        x = max(x, wish(node) - width / 2)
        boxes[node] = Box(x, BOX_GAP + number * (BOX_HEIGHT + LAYER_GAP), width)
        x += width + BOX_GAP


def _edges(node: Node, boxes: Mapping[Node, Box]) -> list[str]:
    paths = []
    count = max(len(node.inputs), 1)
    for slot, port in enumerate(node.inputs):
        if port is not None:
            start, end = boxes[port.node], boxes[node]
            at = end.x + end.width * (slot + 1) / (count + 1)
            paths.append(_path(start, end, at, str(port.desc), ""))
    for other in node.control_inputs:
        paths.append(
            _path(boxes[other], boxes[node], boxes[node].x + 6, "control", ' stroke-dasharray="4 3"')
        )
    return paths


def _path(start: Box, end: Box, at: float, text: str, extra: str) -> str:
    x, y = start.x + start.width / 2, start.y + BOX_HEIGHT
    middle = (y + end.y) / 2
    curve = f"M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {at:.1f} {middle:.1f} {at:.1f} {end.y:.1f}"
    return (
        f'<path d="{curve}" fill="none" stroke="#a8a29e"{extra} marker-end="url(#tip)">'
        f"<title>{escape(text)}</title></path>"
    )


def _node(node: Node, box: Box) -> str:
    colour = _COLOURS.get(family(node.op_type) or "", _PLAIN)
    details = [node.name, *(f"{k} = {a}" for k, a in node.attrs.items()), *(str(p) for p in node.outputs)]
    if node.origin is not None:
        details.append(str(node.origin))
    middle = box.x + box.width / 2
    return (
        f'<g><title>{escape(chr(10).join(details))}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" rx="5" '
        f'width="{box.width:.1f}" height="{BOX_HEIGHT}" fill="{colour}"/><text x="{middle:.1f}" '
        f'y="{box.y + BOX_HEIGHT / 2 + 4:.1f}" fill="white" text-anchor="middle">{escape(_label(node))}</text></g>'
    )
