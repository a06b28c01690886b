"""Collectives while a pass is proven: computed from what this process has, without a word to the other ranks.

Ranks compile at different times, and not all of them prove: a collective of a proof would meet one of the program in
another rank. What stands in for it is no sum over ranks, but a function of the same inputs, of the same size and type:

    all_reduce(x)            2 * x
    all_gather(x) over 2     [2 * x, 2 * x]
    all_reduce_(x)           the same, written into x

A pass that gives a collective another input, or takes its result for another one, is found out as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map_only

from air_graph import (
    bodies_of,
    effects_of,
    is_collective,
    operator_of,
    waits_for_collective,
    written_values,
)


def why_not_alone(gm: GraphModule) -> str | None:
    """Why a graph cannot be run without other ranks: a collective runs where nothing can stand in for it."""
    for node in gm.graph.nodes:
        if isinstance(node.target, HigherOrderOperator) and _holds_collective(node):
            return f"{node.target} ({node.name}) runs a collective, and a proof speaks to no other rank"
    return None


def _holds_collective(node: Node) -> bool:
    called = operator_of(node)
    if called is not None and is_collective(called[0]):
        return True
    inside = (one for body in bodies_of(node) for one in body.graph.nodes)
    return any(is_collective(one.target) or _holds_collective(one) for one in inside)


def stands_alone(target: object) -> bool:
    """Whether a call needs no other rank."""
    return not is_collective(target) or waits_for_collective(target)


def without_ranks(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What stands in for the results of a collective; it writes what the collective writes."""
    read = _read(op, args, kwargs)
    written = list(_tensors(written_values(op, args, kwargs)))
    if not written:
        made = iter(range(len(tree_leaves(fakes := _fakes(op, args, kwargs)))))
        return tree_map_only(Tensor, lambda fake: _mixed(read, fake, next(made)), fakes)
    values = [_mixed(read, target, place) for place, target in enumerate(written)]
    for target, value in zip(written, values, strict=True):
        target.copy_(value)
    returns = op._schema.returns
    if not returns:
        return None
    return written if "[]" in str(returns[0].type) or len(returns) > 1 else written[0]


def _read(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    given = [a.given(args, kwargs) for a in effects_of(op).arguments if a.reads]
    return list(_tensors(given))


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _fakes(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results as they would lie."""
    mode = FakeTensorMode()
    with mode:
        given, named = tree_map_only(Tensor, mode.from_tensor, (tuple(args), dict(kwargs)))
        return op(*given, **named)


def _mixed(read: Sequence[Tensor], like: Tensor, place: int) -> Tensor:
    """A tensor as `like`, of values that depend on all that is read, and most on what is at the same place."""
    size = like.numel()
    exact = like.dtype.is_floating_point or like.dtype.is_complex
    total = torch.zeros(size, dtype=like.dtype if exact else torch.float32, device=_place(read, like))
    for at, tensor in enumerate(read):
        if size and tensor.numel():
            flat = tensor.reshape(-1).to(total.dtype)
            total += flat.repeat(-(-size // flat.numel()))[:size] * (2 if at == place else 1)
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=total.device)
    return made.copy_(total.view(like.shape))


def _place(read: Sequence[Tensor], like: Tensor) -> torch.device:
    return next((tensor.device for tensor in read if tensor.device.type == like.device.type), like.device)
