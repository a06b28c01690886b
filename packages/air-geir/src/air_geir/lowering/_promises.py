"""What eager gives for each result, recorded while the graph is lowered, so that calls can be checked against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import fx

from air_geir.converters import name_of
from air_geir.errors import ExpressionError
from air_geir.ir import Dim, as_dim
from air_geir.lowering._source import source_of
from air_geir.program import Promise
from air_graph import links_of, owner_of, surroundings_of

_ADDRESSED = frozenset({torch.ops.aten.as_strided.default})
"""Views whose offset counts from the start of the storage."""


class Promises(NamedTuple):
    """One per result and one per argument; None for what is not a tensor."""

    results: tuple[Promise | None, ...]
    arguments: tuple[Promise | None, ...]


def promises(returned: Sequence[Any], positions: Mapping[fx.Node, int]) -> Promises:
    """The promises of a graph, by its example values and by whose memory each result lies in."""
    owners: dict[fx.Node, int] = {}
    results = tuple(_of_result(node, positions, owners) for node in returned)
    arguments = tuple(
        _of(node, node.meta.get("val"), ("argument", at), 0, False) for node, at in positions.items()
    )
    return Promises(results, arguments)


def _of_result(
    node: Any,
    positions: Mapping[fx.Node, int],
    owners: dict[fx.Node, int],
) -> Promise | None:
    if not isinstance(node, fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    owner, value = owner_of(node), node.meta["val"]
    if owner not in positions:
        memory = ("result", owners.setdefault(owner, len(owners)))
        made = _of(node, value, memory, 0, True)
        if made is not None and surroundings_of(node) in positions:
            return replace(made, offset=None)  # it begins as far into its storage as the argument of the call
        return made
    absolute = any(link.node.target in _ADDRESSED for link in links_of(node))
    start = None if absolute else _bytes(owner.meta.get("val"))
    return _of(node, value, ("argument", positions[owner]), 0 if start is None else start, absolute)


def _of(node: fx.Node, value: Any, memory: tuple[str, int], start: Dim, absolute: bool) -> Promise | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    offset = _bytes(value)
    return Promise(
        "  ".join(filter(None, (node.name, name_of(node.target), source_of(node)))),
        tuple(map(_dim, value.shape)),
        tuple(map(_dim, value.stride())),
        None if offset is None else offset - start,
        memory,
        absolute,
        value.device.type,
    )


def _bytes(value: Any) -> Dim | None:
    """Where a tensor begins in its storage, in bytes."""
    offset = _dim(value.storage_offset()) if isinstance(value, torch.Tensor) else None
    return None if offset is None else offset * value.itemsize


def _dim(size: int | torch.SymInt) -> Dim | None:
    try:
        return as_dim(size)
    except ExpressionError:
        return None
