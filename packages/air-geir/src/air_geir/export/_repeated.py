"""A tensor that is passed as several arguments: an input for each, or one input for all where the model writes to it.

torch.export takes tensors that are one object for one input: of `model(x, x)` it would make a program that reads its
last input alone.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Apart:
    """Arguments of which no two are one tensor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    repeated: frozenset[int]
    """The positions of those that were, among all leaves."""


def repeats_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Apart:
    """The arguments, with a copy in the place of each tensor that was there before."""
    leaves, shape = pytree.tree_flatten((args, kwargs))
    again = _again(leaves)
    if not again:
        return Apart(args, kwargs, frozenset())
    args, kwargs = pytree.tree_unflatten(
        [leaf.detach().clone() if at in again else leaf for at, leaf in enumerate(leaves)], shape
    )
    return Apart(args, kwargs, frozenset((*again, *again.values())))


def _again(leaves: list[Any]) -> dict[int, int]:
    """The position of a tensor that was there before -> where it was first."""
    first: dict[int, int] = {}
    return {
        at: first[id(leaf)]
        for at, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and first.setdefault(id(leaf), at) != at
    }


def without_repeats(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The model and its arguments, with None for each repeated tensor, so that writes reach the same memory."""
    leaves, shape = pytree.tree_flatten((args, kwargs))
    again = _again(leaves)
    forward = model.forward

    @functools.wraps(forward)
    def forward_of_all(*given: Any, **named: Any) -> Any:
        found, form = pytree.tree_flatten((given, named))
        found = [found[again.get(at, at)] for at in range(len(found))]
        given, named = pytree.tree_unflatten(found, form)
        return forward(*given, **named)

    twin = copy.copy(model)  # the same parameters, buffers and modules under the same names
    twin.forward = forward_of_all
    rest = [None if at in again else leaf for at, leaf in enumerate(leaves)]
    args, kwargs = pytree.tree_unflatten(rest, shape)
    return twin, args, kwargs
