"""What the results of a graph are: which of them are inputs, their names and lines, and the structure around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten

from air_graph import Ownership, SourceLine, owning_results
from air_graph import source_of as where


class Result(NamedTuple):
    """Which value an output is, the line that computes it, and whose memory it lies in in eager."""

    name: str
    where: SourceLine | None
    owning: Ownership = Ownership(0, 0, False)


def outputs_of(gm: GraphModule) -> tuple[list[int | None], list[Result], Any, bool]:
    """Of each output: the placeholder it is, and what it is; and the structure around them."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    position = {node: index for index, node in enumerate(placeholders)}
    value: Any = gm.graph.output_node().args[0]
    leaves, spec = tree_flatten(value)
    is_flat = isinstance(value, (tuple, list)) and len(leaves) == len(value)
    is_flat = is_flat and all(leaf is item for leaf, item in zip(leaves, value, strict=True))
    given = [position.get(leaf) if isinstance(leaf, torch.fx.Node) else None for leaf in leaves]
    return given, list(map(_result, leaves, owning_results(gm))), spec, is_flat


def _result(leaf: Any, owning: Ownership) -> Result:
    if not isinstance(leaf, torch.fx.Node):
        return Result(str(leaf), None)
    return Result(leaf.name, where(leaf), owning)


def repeated(results: Sequence[Result]) -> dict[int, int]:
    """The outputs that are an earlier one once more, and which: two outputs of one name are one node."""
    first: dict[str, int] = {}
    places = ((place, first.setdefault(result.name, place)) for place, result in enumerate(results))
    return {place: earlier for place, earlier in places if place != earlier}
