"""Weight normalisation of one axis, which torch's decomposition gets wrong, and the gradient, which has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._decomp import decomposition_table


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """_weight_norm_interface: where the kept axis is the only one, each element is a row and has a norm of its own.

    torch's decomposition takes the norm of the whole vector there. So does its fake kernel, and the second result has
    to be of the size that a graph was traced with: it is torch's, and nothing reads it.
    """
    weight, norms = decomposition_table[torch.ops.aten._weight_norm_interface.default](v, g, dim)
    return (v * (g / v.abs()) if v.dim() == 1 else weight), norms


def _gradient(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """_weight_norm_interface_backward: of the direction and of the length of `g * v / norm(v)`."""
    wide = torch.float32 if saved_v.dtype in (torch.float16, torch.bfloat16) else saved_v.dtype
    grad, v, g = (x.to(wide) for x in (grad_w, saved_v, saved_g))
    norms = saved_norms.to(wide) if v.dim() > 1 else v.abs()
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (grad * v).sum(others, keepdim=True) if others else grad * v
    of_v = g / norms * (grad - v * (along / (norms * norms)))
    return of_v.to(saved_v.dtype), (along / norms).to(saved_g.dtype)


NORM_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    torch.ops.aten._weight_norm_interface_backward.default: _gradient,
}
