"""Strides of dimensions of size 1: no element is reached by them, and torch's fake kernels do not predict all of them.

    b.stride() == (1, 5)      # of the size (5, 1)
    (b * 2).stride()          # the kernel of a CPU: (1, 5); the fake kernel: (1, 1)

A caller of eager can see such a stride in a result, and in what elementwise operators make of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from air_graph import hint_of, same_extents

aten = torch.ops.aten

#: Operators whose results lie densely, however their operands do.
_DENSE: Final = (
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten.embedding.default,
)


def is_elementwise(target: object) -> bool:
    """Whether a result lies as its operands do."""
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags


def has_ones(value: torch.Tensor) -> bool:
    """Whether a tensor has a dimension of size 1."""
    return any(hint_of(size) == 1 for size in value.shape)


def are_predicted(node: Node, value_of: Callable[[Node], torch.Tensor | None]) -> bool:
    """Whether strides of size 1 are known: all that a value may have its layout from lies densely in order."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        value = value_of(one)
        if one in seen or (value is not None and not has_ones(value)):
            continue
        seen.add(one)
        if value is not None and not _lies_in_order(value):
            return False
        if one.target not in _DENSE:
            waiting.extend(x for x in one.all_input_nodes if _may_give_its_layout(one, value, value_of(x)))
    return True


def _may_give_its_layout(node: Node, value: torch.Tensor | None, operand: torch.Tensor | None) -> bool:
    """Whether an operator may lay its result out as this operand lies: one by one, or as those that sort do."""
    if value is None or operand is None or is_elementwise(node.target):
        return True
    return same_extents(operand.size(), value.size())


def _lies_in_order(value: torch.Tensor) -> bool:
    """Whether all strides, those of size 1 too, are those of fresh memory."""
    expected = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if hint_of(stride) != expected:
            return False
        expected *= max(hint_of(size) or 1, 1)
    return True
