"""Whether two example values of a node are the same to those who use it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from air_graph import Region, StorageKey, leaf_storages, read_alike, storage_key, surely


def is_same_value(before: Any, after: Any, node: Node) -> bool:
    """Whether two example values of `node` look the same to its users, aliasing of its arguments included."""
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        inputs = {s for n in node.all_input_nodes for s in leaf_storages(n.meta.get("val"))}
        return _is_same_tensor(before, after, inputs)
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        pairs = zip(before, after, strict=False)
        return len(before) == len(after) and all(is_same_value(a, b, node) for a, b in pairs)
    if isinstance(before, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return type(before) is type(after) and surely(before == after)
    return type(before) is type(after) and (before is after or not isinstance(before, int) or before == after)


def _is_same_tensor(before: torch.Tensor, after: torch.Tensor, inputs: set[StorageKey]) -> bool:
    if before.device != after.device or before.layout != after.layout or not read_alike(before, after):
        return False
    old, new = storage_key(before), storage_key(after)
    if old is None or new is None:
        return old is new
    same_home = old == new or (old not in inputs and new not in inputs)
    return same_home and Region.of(before).same(Region.of(after))
