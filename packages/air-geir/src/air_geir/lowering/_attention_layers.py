"""Attention layers that torch runs as one operator in inference, written with the operators they consist of.

`nn.MultiheadAttention` and `nn.TransformerEncoderLayer` do so in eval mode without gradients. A mask says with True
which places are hidden, and `mask_type` gives its shape: `[length, length]`, `[rows, length]`, or for every head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

_OF_PLACES: Final = 0
_OF_ROWS: Final = 1


def _attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """_native_multi_head_attention: the result, and the weights where they are needed."""
    projections = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    width = embed_dim // num_head
    q, k, v = (F.linear(x, w, b).unflatten(-1, (num_head, width)).transpose(1, 2) for x, w, b in projections)
    scores = (q / math.sqrt(width)) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(_for_every_head(mask.to(torch.bool), mask_type), -math.inf)
    weights = scores.softmax(-1)
    mixed = (weights @ v).transpose(1, 2).flatten(2)
    result = F.linear(mixed, proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _for_every_head(mask: Tensor, mask_type: int | None) -> Tensor:
    if mask_type == _OF_ROWS:
        return mask[:, None, None, :]
    return mask[None, None] if mask_type == _OF_PLACES else mask


def _encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor,
    norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor,
    ffn_bias_2: Tensor, mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    """_transformer_encoder_layer_fwd."""

    def attended(x: Tensor) -> Tensor:
        own = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _attention(x, x, x, embed_dim, num_heads, *own, mask, False, True, mask_type)[0]

    def fed(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else inner.relu(), ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + fed(second(x))
    x = first(src + attended(src))
    return second(x + fed(x))


ATTENTION_LAYERS: Final[Mapping[object, Callable[..., Any]]] = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
