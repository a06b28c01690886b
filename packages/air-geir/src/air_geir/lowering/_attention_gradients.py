"""The gradient of attention on the CPU, written with products of matrices.

The weights are computed again from queries and keys, as torch's kernel does; half precision is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

_NARROW: Final = (torch.float16, torch.bfloat16)


def _flash_attention_on_cpu(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """_scaled_dot_product_flash_attention_for_cpu_backward: of the query, the key and the value."""
    if dropout_p:
        return NotImplemented
    compute = torch.float32 if query.dtype in _NARROW else query.dtype
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    grad, q, result = (x.to(compute) for x in (grad_out, query, out))
    k, v = (_of_every_head(x.to(compute), query.shape[1]) for x in (key, value))
    scores = (q @ k.transpose(-2, -1)) * factor
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask.to(compute)
    weights = torch._safe_softmax(scores, -1)
    share = (grad * result).sum(-1, keepdim=True)
    moved = weights * (grad @ v.transpose(-2, -1) - share) * factor
    return (
        (moved @ k).to(query.dtype),
        _of_own_heads(moved.transpose(-2, -1) @ q, key),
        _of_own_heads(weights.transpose(-2, -1) @ grad, value),
    )


def _of_every_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values once for each query that shares them."""
    own = x.shape[1]
    if own == heads:
        return x
    apart = x.unsqueeze(2).expand(x.shape[0], own, heads // own, *x.shape[2:])
    return apart.reshape(x.shape[0], heads, *x.shape[2:])


def _of_own_heads(grad: Tensor, like: Tensor) -> Tensor:
    """The sum over the queries that share a key or a value."""
    own = like.shape[1]
    if own != grad.shape[1]:
        grad = grad.reshape(grad.shape[0], own, grad.shape[1] // own, *grad.shape[2:]).sum(2)
    return grad.to(like.dtype)


ATTENTION_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_attention_on_cpu,
}
