"""Makes a tensor that is passed as several arguments one input, so that writes reach the same memory as in the call."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch.utils import _pytree as pytree


def without_repeats(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]] | None:
    """The model and its arguments, with None for each repeated tensor; None if no tensor is repeated."""
    leaves, shape = pytree.tree_flatten((args, kwargs))
    first: dict[int, int] = {}
    again = {}
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and first.setdefault(id(leaf), at) != at:
            again[at] = first[id(leaf)]
    if not again:
        return None
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
