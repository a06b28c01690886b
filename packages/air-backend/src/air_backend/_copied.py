"""Copies of arguments, for those who call a function more than once.

A function that writes one argument and reads another that lies in the same memory does so with the copies as well, and
a compiled graph meets the sizes, strides and offsets that the caller's tensors have.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import air_graph

REPEATS: Final = 1
"""What torch says of a tensor that was expanded."""


def copied(value: Any) -> Any:
    """The same structure with copies of its tensors, which want gradients where the originals do, and have none."""
    return air_graph.copied(value, with_gradients=True)


def move_on(value: Any, places: int) -> None:
    """Moves the elements of all floating tensors on, in place; tensors that have an element twice stay."""
    tensors = {id(leaf): leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)}
    for tensor in tensors.values():
        if tensor.is_floating_point() and torch._debug_has_internal_overlap(tensor) != REPEATS:
            plain = tensor.detach()
            plain.copy_(plain.flatten().roll(places).view(plain.shape))
