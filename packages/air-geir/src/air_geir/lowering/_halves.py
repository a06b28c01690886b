"""Operators of half precision that are written with simpler ones: in 32 bits, rounded once, as their kernels do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

_HALVES = (torch.float16, torch.bfloat16)
_PIECES = (
    torch._C.DispatchKey.CompositeImplicitAutograd,
    torch._C.DispatchKey.CompositeExplicitAutograd,
)
_LOSSES = frozenset({"smooth_l1_loss", "huber_loss", "mse_loss", "soft_margin_loss", "binary_cross_entropy"})
"""Work on elements (unless they reduce), although torch does not tag them as pointwise."""


def rounded_once(
    op: torch._ops.OpOverload, function: Callable[..., Any], leaves: Sequence[Any]
) -> Callable[..., Any]:
    """The decomposition over wide tensors, for an operator on elements whose tensors are all of one half type."""
    found = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()}
    by_element = torch.Tag.pointwise in op.tags or op._schema.name.rpartition("::")[2] in _LOSSES
    in_pieces = any(map(op.has_kernel_for_dispatch_key, _PIECES))
    if not by_element or in_pieces or len(found) != 1 or not found <= set(_HALVES):
        return function
    (half,) = found  # eager torch runs a composite operator as its parts, and rounds after each

    def wide(leaf: Any) -> Any:
        return leaf.to(torch.float32) if isinstance(leaf, torch.Tensor) and leaf.dtype == half else leaf

    def narrow(leaf: Any) -> Any:
        return leaf.to(half) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32 else leaf

    def computed(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(wide, (args, kwargs))
        result = function(*args, **kwargs)
        return result if result is NotImplemented else pytree.tree_map(narrow, result)

    return computed
