"""Fused attention: prompts, single tokens, packed sequences, paged caches.

Every form comes down to one sequence at a time: queries `[heads, length, width]` over the keys of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel

UNBOUNDED = 2147483647
Lengths = Sequence[int] | None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


_AXES = {"BSH": "BSH", "SBH": "SBH", "BNSD": "BNSD", "BSND": "BSND", "NBSD": "NBSD", "SH": "BSH"}


def _heads_first(x: Tensor, layout: str, heads: int) -> Tensor:
    """(batch, heads, length, width)."""
    if layout.endswith("H"):
        x, layout = x.unflatten(-1, (heads, -1)), layout[:-1] + "ND"
    return x.permute([layout.index(axis) for axis in "BNSD"])


def _laid_out(y: Tensor, layout: str) -> Tensor:
    apart = layout[:-1] + "ND" if layout.endswith("H") else layout
    turned = y.permute(["BNSD".index(axis) for axis in apart])
    return turned.flatten(-2) if layout.endswith("H") else turned.contiguous()


@dataclass(frozen=True)
class _Sums:
    """What the softmax of every query was divided by: the largest score, and the sum of what is left."""

    largest: Tensor
    total: Tensor

    @property
    def logarithm(self) -> Tensor:
        infinite = torch.full_like(self.total, torch.inf)
        return torch.where(self.total > 0, self.largest + self.total.log(), infinite)


@dataclass(frozen=True)
class _Inputs:
    """The tensors of one call, beyond query, key and value."""

    bias: Tensor | None = None
    mask: Tensor | None = None
    lengths: Lengths = None
    key_lengths: Lengths = None
    pages: Tensor | None = None
    sink: Tensor | None = None


class _Attention:
    """softmax(q k^T * scale + bias, masked) v with grouped heads."""

    def __init__(self, op: Operator, scale: float, heads: int, key_heads: int) -> None:
        self.op = op
        self.scale = scale
        self.heads = heads
        self.key_heads = key_heads or heads
        first, _, second = _text(op.attr("input_layout")).partition("_")
        self.layout, self.result = first, second or first
        self.mode = int(op.attrs.get("sparse_mode", 0))
        self.before = int(op.attrs.get("pre_tokens", op.attrs.get("pre_tockens", UNBOUNDED)))
        self.after = int(op.attrs.get("next_tokens", op.attrs.get("next_tockens", UNBOUNDED)))
        if self.layout != "TND" and (self.layout not in _AXES or self.result not in _AXES):
            raise op.refuse(f"input_layout {_text(op.attr('input_layout'))!r} is not supported")
        if self.mode not in (0, 1, 2, 3, 4):
            raise op.refuse(f"sparse_mode {self.mode} is not supported")

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, given: _Inputs) -> tuple[Tensor, _Sums]:
        found = [
            self._one(q, k, v, given, batch)
            for batch, (q, k, v) in enumerate(self._sequences(query, key, value, given))
        ]
        results, largest, total = zip(*found, strict=True)
        if self.layout == "TND":
            rows, *sums = (torch.cat(list(x), 1).transpose(0, 1) for x in (results, largest, total))
            return rows.contiguous().to(query.dtype), _Sums(*(s.contiguous() for s in sums))
        length = _heads_first(query, _AXES[self.layout], self.heads).shape[2]
        whole, *sums = (
            torch.stack([F.pad(x, (0, 0, 0, length - x.shape[1])) for x in parts])
            for parts in (results, largest, total)
        )
        return _laid_out(whole, _AXES[self.result]).to(query.dtype), _Sums(*sums)

    def _sequences(
        self, query: Tensor, key: Tensor, value: Tensor, given: _Inputs
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Query, keys and values of each batch, as (heads, length, width)."""
        if self.layout == "TND":
            ends = given.lengths
            if ends is None:
                raise self.op.refuse("layout TND needs the lengths of the sequences")
            pairs = (_pieces(query, ends), _pieces(key, given.key_lengths or ends))
            yield from zip(*pairs, _pieces(value, given.key_lengths or ends), strict=True)
            return
        layout = _AXES[self.layout]
        queries = _heads_first(query, layout, self.heads)
        for batch, q in enumerate(queries):
            own = q[:, : _length(given.lengths, batch)]
            count = _length(given.key_lengths, batch)
            if given.pages is not None:
                yield own, *(self._paged(x, given.pages[batch], count) for x in (key, value))
            else:
                keys, values = (_heads_first(x, layout, self.key_heads)[batch] for x in (key, value))
                yield own, keys[:, :count], values[:, :count]

    def _paged(self, cache: Tensor, table: Tensor, count: int | None) -> Tensor:
        """The blocks of one batch as (heads, length, width)."""
        if count is None:
            raise self.op.refuse("a block table needs the lengths of the keys")
        if cache.dim() == 3:
            cache = cache.unflatten(-1, (self.key_heads, -1)).transpose(1, 2)
        used = table[: -(-count // cache.shape[2])].long()
        return cache[used].transpose(0, 1).flatten(1, 2)[:, :count]

    def _one(
        self, q: Tensor, k: Tensor, v: Tensor, given: _Inputs, batch: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        shared = self.heads // self.key_heads
        keys, values = (x.float().repeat_interleave(shared, 0) for x in (k, v))
        scores = q.float() @ keys.transpose(-1, -2) * self.scale
        if given.bias is not None:
            scores = scores + _of(given.bias, batch)[..., : q.shape[1], : k.shape[1]].float()
        hidden = self._hidden(q.shape[1], k.shape[1], self._mask(given.mask, batch, q.shape[1]))
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        largest = scores.amax(-1, keepdim=True)
        if given.sink is not None:
            largest = torch.maximum(largest, given.sink.float().reshape(-1, 1, 1))
        largest = torch.where(largest.isinf(), torch.zeros_like(largest), largest)
        weights = torch.exp(scores - largest)
        total = weights.sum(-1, keepdim=True)
        if given.sink is not None:
            total = total + torch.exp(given.sink.float().reshape(-1, 1, 1) - largest)
        shares = torch.where(total > 0, weights / total, torch.zeros_like(weights))
        return shares @ values, largest, total

    def _mask(self, mask: Tensor | None, batch: int, queries: int) -> Tensor | None:
        if mask is None:
            return None
        if mask.dim() == 2 and queries == 1 and mask.shape[0] > 1:
            return mask[batch : batch + 1].bool()
        return (mask if mask.dim() == 2 else _of(mask, batch)).bool()

    def _hidden(self, queries: int, keys: int, mask: Tensor | None) -> Tensor | None:
        """True where a query does not look; None when it looks everywhere."""
        if self.mode >= 2:
            aligned = self.mode != 2
            before, after = (self.before, self.after) if self.mode == 4 else (UNBOUNDED, 0)
            return _outside(queries, keys, before, after, aligned)
        if mask is None:
            return None
        hidden = mask[..., :queries, :keys]
        bounded = self.mode == 0 and min(self.before, self.after) < UNBOUNDED
        return hidden | _outside(queries, keys, self.before, self.after, False) if bounded else hidden


def _of(x: Tensor, batch: int) -> Tensor:
    return x[batch if x.shape[0] > 1 else 0]


def _length(lengths: Lengths, batch: int) -> int | None:
    if not lengths:
        return None
    return lengths[batch if len(lengths) > 1 else 0]


def _pieces(x: Tensor, ends: Sequence[int]) -> list[Tensor]:
    """Packed sequences apart, heads first; `ends` says where each ends."""
    return [x[a:b].transpose(0, 1) for a, b in zip((0, *ends), ends)]  # noqa: B905  # one start too many


def _outside(queries: int, keys: int, before: int, after: int, aligned: bool) -> Tensor:
    """True where a key lies outside the band round the diagonal, which ends in the last corner when aligned."""
    shift = keys - queries if aligned else 0
    distance = torch.arange(keys) - torch.arange(queries).unsqueeze(1) - shift
    return (distance > after) | (distance < -before)


_LENGTHS = ("actual_seq_lengths", "actual_seq_lengths_kv")


def _with_heads(op: Operator, scale: float) -> _Attention:
    return _Attention(op, scale, int(op.attr("num_heads")), int(op.attr("num_key_value_heads")))


@kernel("PromptFlashAttention", host=_LENGTHS)
def prompt_flash_attention(op: Operator) -> Run:
    """Attention over a whole prompt."""
    attention = _with_heads(op, op.attr("scale_value"))

    def run(
        query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None,
        lengths: Lengths, lengths_kv: Lengths, *quantisation: Tensor | None,
    ) -> Tensor:  # fmt: skip
        if any(q is not None for q in quantisation):
            raise op.refuse("quantised attention is not supported")
        return attention(query, key, value, _Inputs(bias, mask, lengths, lengths_kv))[0]

    return run


@kernel("IncreFlashAttention", host=("actual_seq_lengths",))
def incre_flash_attention(op: Operator) -> Run:
    """Attention of one new token over what is cached."""
    attention = _with_heads(op, op.attr("scale_value"))

    def run(
        query: Tensor, key: Sequence[Tensor], value: Sequence[Tensor], bias: Tensor | None, mask: Tensor | None,
        lengths: Lengths, *others: Tensor | None,
    ) -> Tensor:  # fmt: skip
        *quantisation, pages, padding = others
        if len(key) != 1 or padding is not None or any(q is not None for q in quantisation):
            raise op.refuse("lists of caches, quantisation and padding are not supported")
        return attention(query, key[0], value[0], _Inputs(bias, mask, None, lengths, pages))[0]

    return run


_OPTIONAL = (
    "dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2", "quant_offset2", "antiquant_scale",
    "antiquant_offset", "block_table", "query_padding_size", "kv_padding_size", "key_antiquant_scale",
    "key_antiquant_offset", "value_antiquant_scale", "value_antiquant_offset", "key_shared_prefix",
    "value_shared_prefix", "actual_shared_prefix_len", "query_rope", "key_rope", "key_rope_antiquant_scale",
    "dequant_scale_query", "learnable_sink", "q_start_idx", "kv_start_idx",
)  # fmt: skip
"""Inputs of FusedInferAttentionScore behind the lengths."""


@kernel("FusedInferAttentionScore", host=_LENGTHS)
def fused_infer_attention_score(op: Operator) -> Run:
    """Attention of prompts and of single tokens; also the log of the sum of exponentials when asked."""
    attention, wants_sums = _with_heads(op, op.attr("scale")), bool(op.attr("softmax_lse_flag"))
    served = {"block_table", "query_rope", "key_rope", "learnable_sink"}

    def run(
        query: Tensor, key: Sequence[Tensor], value: Sequence[Tensor], bias: Tensor | None, mask: Tensor | None,
        lengths: Lengths, lengths_kv: Lengths, *others: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        fed = {name: t for name, t in zip(_OPTIONAL, others, strict=False) if t is not None}
        if len(key) != 1 or fed.keys() - served:
            raise op.refuse(
                f"{', '.join(sorted(fed.keys() - served)) or 'lists of caches'} cannot be computed"
            )
        keys = key[0]
        if "query_rope" in fed:
            query = _beside(query, fed["query_rope"], attention.layout, attention.heads)
            keys = _beside(keys, fed["key_rope"], attention.layout, attention.key_heads)
        inputs = _Inputs(bias, mask, lengths, lengths_kv, fed.get("block_table"), fed.get("learnable_sink"))
        result, sums = attention(query, keys, value[0], inputs)
        return result, sums.logarithm if wants_sums else torch.zeros(0)

    return run


def _beside(x: Tensor, rope: Tensor, layout: str, heads: int) -> Tensor:
    """Every head with its rotary part behind it."""
    if layout in ("BSH", "SBH"):
        apart = [t.unflatten(-1, (heads, -1)) for t in (x, rope)]
        return torch.cat(apart, -1).flatten(-2)
    return torch.cat([x, rope], -1)


@kernel("FlashAttentionScore", host=("actual_seq_qlen", "actual_seq_kvlen"))
def flash_attention_score(op: Operator) -> Run:
    """Attention for training: what the softmax was divided by is given for every query, eight times."""
    heads = int(op.attr("head_num"))
    if op.attr("keep_prob") != 1.0:
        raise op.refuse("dropout is not supported")

    def run(
        query: Tensor, key: Tensor, value: Tensor, shift: Tensor | None, drop: Tensor | None,
        padding: Tensor | None, mask: Tensor | None, prefix: Tensor | None, lengths: Lengths, lengths_kv: Lengths,
        *others: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if any(t is not None for t in (drop, padding, prefix, *others)):
            raise op.refuse("dropout, padding masks and prefixes are not supported")
        attention = _Attention(op, op.attr("scale_value"), heads, _key_heads(op, query, key, heads))
        result, sums = attention(query, key, value, _Inputs(shift, mask, lengths, lengths_kv))
        rows = [s.expand(*s.shape[:-1], 8).contiguous() for s in (sums.largest, sums.total)]
        return *rows, query.new_empty(0), result

    return run


def _key_heads(op: Operator, query: Tensor, key: Tensor, heads: int) -> int:
    layout = _text(op.attr("input_layout"))
    if layout in ("BSH", "SBH"):
        return key.shape[-1] * heads // query.shape[-1]
    return key.shape[layout.index("N")]
