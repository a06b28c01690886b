"""A decoder of Llama's shape with a cache of fixed length, in plain torch: what `gpu_decode.py` times."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of the decoder."""

    layers: int = 16
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 8
    intermediate: int = 8192
    vocabulary: int = 32000
    length: int = 512


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Layer(nn.Module):
    """Attention over the cache, then the gated MLP."""

    def __init__(self, shape: Shape, batch: int) -> None:
        super().__init__()
        self.size = shape.hidden // shape.heads
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.before_attention, self.before_mlp = Norm(shape.hidden), Norm(shape.hidden)
        self.query = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.key = nn.Linear(shape.hidden, self.kv_heads * self.size, bias=False)
        self.value = nn.Linear(shape.hidden, self.kv_heads * self.size, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)
        cache = torch.zeros(batch, self.kv_heads, shape.length, self.size)
        self.register_buffer("keys", cache, persistent=False)
        self.register_buffer("values", cache.clone(), persistent=False)

    keys: Tensor
    values: Tensor

    def forward(self, x: Tensor, position: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        batch, y = x.shape[0], self.before_attention(x)
        query = turned(self.query(y).view(batch, 1, self.heads, self.size).transpose(1, 2), cosine, sine)
        key = turned(self.key(y).view(batch, 1, self.kv_heads, self.size).transpose(1, 2), cosine, sine)
        value = self.value(y).view(batch, 1, self.kv_heads, self.size).transpose(1, 2)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        seen = functional.scaled_dot_product_attention(query, self.keys, self.values, mask, enable_gqa=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, 1, -1))
        y = self.before_mlp(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding."""
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


class Decoder(nn.Module):
    """One step: a token per sequence and its position in, logits out; the caches are written in place."""

    def __init__(self, shape: Shape, batch: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, batch) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        size = shape.hidden // shape.heads
        angles = torch.arange(shape.length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.register_buffer("places", torch.arange(shape.length), persistent=False)

    cosine: Tensor
    sine: Tensor
    places: Tensor

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.embedding(token)
        cosine, sine = self.cosine[position], self.sine[position]
        mask = (self.places <= position)[None, None, None]
        for layer in self.layers:
            x = layer(x, position, cosine, sine, mask)
        logits: Tensor = self.head(self.norm(x))
        return logits
