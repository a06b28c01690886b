"""Replaces operators that wait for the host by others that do not, before a graph is cut around them.

    x[mask] = 0, x[mask] = row          ->      where(mask, row, x)

The host need not count the mask then. The values are the same. A write of one row for each place of the mask has no
such form, and is left.

    _native_batch_norm_legit.no_stats   ->      native_batch_norm      (on an NPU)

torch traces an instance norm as the first, which torch_npu has no kernel for: it copies the operands to the CPU. Eager
calls the second, which is what the first computes where there are no statistics to keep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_aclgraph._uncapturable import MASKED_WRITES
from air_graph import attribute, recompute_views, writes

aten = torch.ops.aten

_MADE_ON_HOST: Final = frozenset(
    {aten.full.default, aten.scalar_tensor.default, aten.lift_fresh_copy.default, aten.zeros.default}
)


def spare_the_host(gm: GraphModule, device: torch.device) -> int:
    """Edits the graph of a device in place; says how many operators were written otherwise."""
    if device.type == "cpu":
        return 0
    made: list[Node] = []
    for node in list(gm.graph.nodes):
        is_masked = node.target in MASKED_WRITES and not writes(node)
        choice = _where(gm, node) if is_masked else None
        if choice is not None:
            node.replace_all_uses_with(choice)
            gm.graph.erase_node(node)
            made.append(choice)
    renamed = _norms_of_npu(gm) if device.type == "npu" else 0
    if renamed:
        gm.recompile()
    if made:
        recompute_views(gm.graph, made)
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return len(made) + renamed


def _norms_of_npu(gm: GraphModule) -> int:
    """Norms of a batch without statistics, by the operator that torch_npu has."""
    found = gm.graph.find_nodes(op="call_function", target=aten._native_batch_norm_legit.no_stats)
    for node in found:
        operands, settings = node.args[:3], node.args[3:]
        node.target = aten.native_batch_norm.default
        node.args = (*operands, None, None, *settings)
    return len(found)


def _where(gm: GraphModule, node: Node) -> Node | None:
    """A choice by the mask, for a write of what is the same at all its places."""
    base, indices, value, *accumulate = node.args
    found = _single_mask(indices)
    if found is None or any(accumulate) or not isinstance(base, Node) or not isinstance(value, Node):
        return None
    mask, before = found
    if _value(mask).device != _value(base).device:
        return None  # the host made it, and counts it without waiting
    whole, covered, written = _value(base).dim(), _value(mask).dim(), _value(value)
    trailing = whole - before - covered
    if written.dim() > trailing or _value(mask).dtype != torch.bool:
        return None
    if written.device != _value(base).device:
        return _filled(gm, node, base, mask, trailing, value)
    with gm.graph.inserting_before(node):
        choice = _widened(gm, node, mask, trailing)
        return _call(gm, node, aten.where.self, choice, value, base)


def _filled(gm: GraphModule, node: Node, base: Node, mask: Node, trailing: int, value: Node) -> Node | None:
    """A number that the host knows is part of the operator; one that it computes may change, and is left."""
    number = _constant(gm, value)
    if number is None:
        return None
    with gm.graph.inserting_before(node):
        return _call(gm, node, aten.masked_fill.Scalar, base, _widened(gm, node, mask, trailing), number)


def _constant(gm: GraphModule, value: Node) -> int | float | bool | None:
    """What a value on the host always is."""
    if value.target not in _MADE_ON_HOST:
        return None
    if value.target is aten.lift_fresh_copy.default:
        (source,) = value.all_input_nodes
        held = attribute(gm, str(source.target)) if source.op == "get_attr" else None
        if not isinstance(held, Tensor) or held.numel() != 1:
            return None
        with unset_fake_temporarily():
            return held.item()
    number: Any = 0 if value.target is aten.zeros.default else value.args[value.target is aten.full.default]
    return number if isinstance(number, (int, float)) else None


def _single_mask(indices: Any) -> tuple[Node, int] | None:
    """The mask that is the only index, and how many dimensions lie before those that it covers."""
    given = [(at, index) for at, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        return None
    at, mask = given[0]
    return (mask, at) if isinstance(mask, Node) and isinstance(_value(mask), Tensor) else None


def _widened(gm: GraphModule, node: Node, mask: Node, trailing: int) -> Node:
    """The mask with a dimension of size 1 for each that it does not cover."""
    for _ in range(trailing):
        mask = _call(gm, node, aten.unsqueeze.default, mask, -1)
    return mask


def _value(node: Node) -> Any:
    return node.meta["val"]


def _call(gm: GraphModule, instead: Node, operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
    """A new node that says of itself what the replaced one said, with its own example value."""
    node = gm.graph.call_function(operator, args, kwargs)
    given, named = map_arg((args, kwargs), _value)
    with detect_fake_mode([given, named]) or contextlib.nullcontext():
        node.meta = {**instead.meta, "val": operator(*given, **named)}
    return node
