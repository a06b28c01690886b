"""A small decoder of Llama's shape with a KV cache of fixed size that is written in place.

Grouped-query attention, rotary positions, RMS norms and a gated MLP, in plain torch: what a served model does in a
decode step, without a download. Positions come as a tensor, so that prefill and decode are one graph each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class LlamaSize:
    """How large the demo's model is."""

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 344
    vocabulary: int = 512
    cache_length: int = 96

    @property
    def head(self) -> int:
        return self.hidden // self.heads


class RmsNorm(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        scaled = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return scaled.to(x.dtype) * self.weight


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the two halves of each head by the angle of its position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention over a cache that it writes in place."""

    def __init__(self, size: LlamaSize, batch: int) -> None:
        super().__init__()
        self.size = size
        self.q = nn.Linear(size.hidden, size.heads * size.head, bias=False)
        self.k = nn.Linear(size.hidden, size.kv_heads * size.head, bias=False)
        self.v = nn.Linear(size.hidden, size.kv_heads * size.head, bias=False)
        self.o = nn.Linear(size.heads * size.head, size.hidden, bias=False)
        shape = (batch, size.kv_heads, size.cache_length, size.head)
        self.keys: Tensor
        self.values: Tensor
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.size.head).transpose(1, 2)

    def forward(self, x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        size = self.size
        q = rotated(self.split(self.q(x), size.heads), cos, sin)
        k = rotated(self.split(self.k(x), size.kv_heads), cos, sin)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, self.split(self.v(x), size.kv_heads))
        groups = size.heads // size.kv_heads
        keys = self.keys.repeat_interleave(groups, dim=1)
        values = self.values.repeat_interleave(groups, dim=1)
        weights = torch.softmax(q @ keys.transpose(-1, -2) * size.head**-0.5 + mask, dim=-1)
        attended: Tensor = self.o((weights @ values).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))
        return attended


class Block(nn.Module):
    def __init__(self, size: LlamaSize, batch: int) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(size.hidden)
        self.attention = Attention(size, batch)
        self.mlp_norm = RmsNorm(size.hidden)
        self.gate = nn.Linear(size.hidden, size.feed_forward, bias=False)
        self.up = nn.Linear(size.hidden, size.feed_forward, bias=False)
        self.down = nn.Linear(size.feed_forward, size.hidden, bias=False)

    def forward(self, x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), position, cos, sin, mask)
        y = self.mlp_norm(x)
        made: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return made


class Llama(nn.Module):
    """The decoder; `forward(tokens, position)` gives the logits of the last position."""

    def __init__(self, size: LlamaSize = LlamaSize(), batch: int = 1) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(size.vocabulary, size.hidden)
        self.blocks = nn.ModuleList(Block(size, batch) for _ in range(size.layers))
        self.norm = RmsNorm(size.hidden)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)
        angles = torch.outer(
            torch.arange(size.cache_length), 1e4 ** -(torch.arange(0, size.head, 2) / size.head)
        )
        self.cos: Tensor
        self.sin: Tensor
        self.slots: Tensor
        self.register_buffer("cos", torch.cat((angles, angles), dim=-1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), dim=-1).sin())
        self.register_buffer("slots", torch.arange(size.cache_length))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        x = self.embedding(tokens)
        cos, sin = self.cos[position], self.sin[position]
        mask = torch.where(self.slots[None, :] > position[:, None], float("-inf"), 0.0)
        for block in self.blocks:
            x = block(x, position, cos, sin, mask)
        logits: Tensor = self.head(self.norm(x)[:, -1])
        return logits

    def forget(self) -> None:
        """Empties the cache."""
        for block in self.blocks:
            assert isinstance(block, Block)
            block.attention.keys.zero_()
            block.attention.values.zero_()
