"""Splits the demo's model over the ranks of a process group (tensor parallelism).

Every rank holds its share of the heads, of the cache and of the MLP's columns. The two projections that leave a share
(`attention.o` and `down`) give a part of a sum; an all-reduce over the group completes it. The collective is a
functional one, so it is traced into the graph of each rank and captured, or becomes a communication operator.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as functional

from air_backend.demo._llama import Block, Llama, LlamaSize
from air_backend.errors import CannotSplit

_BY_ROW: Final = ("q.weight", "k.weight", "v.weight", "gate.weight", "up.weight")
_BY_COLUMN: Final = ("attention.o.weight", "down.weight", "attention.keys", "attention.values")


@dataclass(frozen=True)
class Share(LlamaSize):
    """One rank's part of a size; a head is as wide as in the whole."""

    head_width: int = 0

    @property
    def head(self) -> int:
        return self.head_width


class SummedLinear(nn.Module):
    """A linear layer whose input columns are split: the ranks' results add up to the whole one."""

    def __init__(self, part: nn.Module, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.part = part
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        whole: Tensor = functional.all_reduce(self.part(x), "sum", self.group)
        return whole


def share_of(size: LlamaSize, ranks: int) -> Share:
    """What one of `ranks` ranks holds; a size that does not divide is refused."""
    for name in ("heads", "kv_heads", "feed_forward"):
        if getattr(size, name) % ranks:
            raise CannotSplit(name, getattr(size, name), ranks)
    parts = {
        **dataclasses.asdict(size),
        "heads": size.heads // ranks,
        "kv_heads": size.kv_heads // ranks,
        "feed_forward": size.feed_forward // ranks,
    }
    return Share(**parts, head_width=size.head)


def split(whole: Llama, group: dist.ProcessGroup) -> Llama:
    """This rank's part of a model, with the collectives that put the parts together."""
    ranks, rank = group.size(), group.rank()
    model = Llama(share_of(whole.size, ranks))
    weights = {name: _part(name, value, ranks, rank) for name, value in whole.state_dict().items()}
    model.load_state_dict(weights)
    for block in model.blocks:
        assert isinstance(block, Block)
        setattr(block.attention, "o", SummedLinear(block.attention.o, group))  # noqa: B010  # another class of layer
        setattr(block, "down", SummedLinear(block.down, group))  # noqa: B010  # another class of layer
    return model


def _part(name: str, value: Tensor, ranks: int, rank: int) -> Tensor:
    if name.endswith(_BY_ROW):
        return value.chunk(ranks, dim=0)[rank]
    if name.endswith(_BY_COLUMN):
        return value.chunk(ranks, dim=1)[rank]
    return value
