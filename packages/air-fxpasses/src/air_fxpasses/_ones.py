"""Strides of dimensions of size 1: no element is reached by them, and torch's fake kernels do not predict all of them.

    b.stride() == (1, 5)      # of the size (5, 1)
    (b * 2).stride()          # the kernel of a CPU: (1, 5); the fake kernel: (1, 1)

A caller of eager can see such a stride in a result, and in what elementwise operators make of it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from air_graph import hint_of


def is_elementwise(target: object) -> bool:
    """Whether a result lies as its operands do."""
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags


def has_ones(value: torch.Tensor) -> bool:
    """Whether a tensor has a dimension of size 1."""
    return any(hint_of(size) == 1 for size in value.shape)


def are_predicted(node: Node, value_of: Callable[[Node], torch.Tensor | None]) -> bool:
    """Whether strides of size 1 are known: what a value is computed from, element by element, lies densely in order."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        value = value_of(one)
        if one in seen or value is None or not has_ones(value):
            continue
        seen.add(one)
        if not _lies_in_order(value):
            return False
        if is_elementwise(one.target):
            waiting.extend(one.all_input_nodes)
    return True


def _lies_in_order(value: torch.Tensor) -> bool:
    """Whether all strides, those of size 1 too, are those of fresh memory."""
    expected = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if hint_of(stride) != expected:
            return False
        expected *= max(hint_of(size) or 1, 1)
    return True
