"""The picture of an FX graph: what each node is, where it comes from, and what it gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import getitem
from typing import Any, Final

import torch
from torch.fx import Graph, Node
from torch.utils.flop_counter import flop_registry

from air_graph._hints import bytes_of, elements_of
from air_graph._operators import name_of
from air_graph._source import source_of
from air_graph._uses import writes
from air_graph.page._picture import PageNode, Picture

_ROOT: Final = re.compile(r"^L\['self'\]\.?|^L\['(\w+)'\]|^self\b\.?")
_ITEM: Final = re.compile(r"(?:\.?_modules)?\['([^']+)'\]|\[(\d+)\]")
_LEAST_READ: Final = 8  # a result so much smaller than what is read is a reduction


def module_of(node: Node) -> str:
    """The path of the innermost module that called the node, `blocks.0.attention`; empty where none is recorded."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(next(reversed(stack.values()))[0])
    path = _ROOT.sub(lambda found: found[1] or "", path)
    return _ITEM.sub(lambda found: f".{found[1] or found[2]}", path).strip(".")


def kind_of(node: Node) -> str:
    """What the picture colours a node by: from its schema and torch's tags, never from its name."""
    if node.op in ("placeholder", "get_attr"):
        return "input"
    if node.op == "output":
        return "output"
    operator = node.target
    if operator is getitem:
        return "view"
    if not isinstance(operator, torch._ops.OpOverload):
        return "other"
    if writes(node):
        return "write"
    if operator.is_view:
        return "view"
    if operator.overloadpacket in flop_registry:
        return "heavy"
    if torch.Tag.pointwise in operator.tags:
        return "pointwise"
    made = _elements(node)
    if made and made * _LEAST_READ <= max((_elements(each) for each in node.all_input_nodes), default=0):
        return "reduce"
    return "reduce" if torch.Tag.reduction in operator.tags else "other"


def text_of(value: Any) -> str:
    """A value as text: `float32[2, 4]`."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(text_of, value[:8]))}{', …' if len(value) > 8 else ''})"
    return "" if value is None else str(value)


def picture_of(graph: Graph, title: str, *, notes: Mapping[str, tuple[str, ...]] | None = None) -> Picture:
    """The picture; `notes` are what was refused, by the names of nodes."""
    at = {node: place for place, node in enumerate(graph.nodes)}
    said = notes or {}
    drawn = [
        PageNode(
            node.name,
            _operator(node),
            kind := kind_of(node),
            tuple(at[each] for each in node.all_input_nodes),
            module_of(node),
            str(source_of(node) or ""),
            text_of(node.meta.get("val")),
            0 if kind in ("view", "write", "input") else bytes_of(node.meta.get("val")),
            said.get(node.name, ()),
        )
        for node in graph.nodes
    ]
    return Picture(title, drawn)


def _operator(node: Node) -> str:
    if node.op != "call_function":
        return node.op
    if isinstance(node.target, torch._ops.OpOverload):
        return name_of(node.target)
    return str(getattr(node.target, "__name__", node.target))


def _elements(node: Node) -> int:
    value = node.meta.get("val")
    return elements_of(value) if isinstance(value, torch.Tensor) else 0
