"""What the results of a graph are: which of them are inputs, their names and lines, and the structure around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten

from air_graph import source_of as where


def outputs_of(gm: GraphModule) -> tuple[list[int | None], list[tuple[str, Any]], Any, bool]:
    """Of each output: the placeholder it is, its name and line; and the structure around them."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    position = {node: index for index, node in enumerate(placeholders)}
    value: Any = gm.graph.output_node().args[0]
    leaves, spec = tree_flatten(value)
    is_flat = isinstance(value, (tuple, list)) and len(leaves) == len(value)
    is_flat = is_flat and all(leaf is item for leaf, item in zip(leaves, value, strict=True))
    given = [position.get(leaf) if isinstance(leaf, torch.fx.Node) else None for leaf in leaves]
    names = [
        (leaf.name, where(leaf)) if isinstance(leaf, torch.fx.Node) else (str(leaf), None) for leaf in leaves
    ]
    return given, names, spec, is_flat


def repeated(names: Sequence[tuple[str, Any]]) -> dict[int, int]:
    """The outputs that are an earlier one once more, and which: two outputs of one name are one node."""
    first: dict[str, int] = {}
    places = ((place, first.setdefault(name, place)) for place, (name, _) in enumerate(names))
    return {place: earlier for place, earlier in places if place != earlier}
