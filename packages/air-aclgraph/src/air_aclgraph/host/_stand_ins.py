"""Replaces the tensors of a run by stand-ins, so that memory the run no longer needs is freed during the run.

    v = f(x)                  a task keeps a stand-in for v: a tensor of its own over the same storage
    del v                     nobody else has v: the storage is emptied; its stand-ins stay what they are
    after the run             stand-ins are pointed at the memory of the recording

A run that is recorded needs no more memory than a run in eager then.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from air_aclgraph._kept import owners
from air_graph import same_place, storage_of


@dataclass
class Block:
    """One storage made during the run: its size and the tasks that touch it."""

    storage: torch.UntypedStorage
    stream: int
    first: int
    last: int = -1
    writers: list[int] = field(default_factory=list)
    streams: set[int] = field(default_factory=set)
    kept: bool = False
    """Whether it may hold the same values in every run, so that no replay would write them again."""
    live: int = 0
    """Tensors of the run over this storage, stand-ins not counted."""
    stand_ins: int = 0
    emptied: int | None = None
    """The size before the storage was emptied."""

    @property
    def nbytes(self) -> int:
        return self.storage.nbytes() if self.emptied is None else self.emptied

    def empty(self) -> None:
        """Gives the memory back, unless somebody has it whom nobody told us of."""
        if self.kept or self.live or not self.storage.nbytes():
            return
        if owners(self.storage._cdata) == self.stand_ins + 1:  # and `storage` itself
            self.emptied = self.storage.nbytes()
            self.storage.resize_(0)

    def fill(self) -> None:
        """Takes memory again, for a storage that stays where it is."""
        if self.emptied is not None:
            self.storage.resize_(self.emptied)
            self.emptied = None


class StandIns:
    """The stand-ins of one run, by the tensor they stand for."""

    def __init__(self, blocks: dict[int, Block]) -> None:
        self._blocks = blocks
        self._watched: dict[int, weakref.ref[Tensor]] = {}
        self._now: dict[int, Tensor] = {}
        self._left: list[Block] = []
        self._adopted: set[int] = set()
        self.all: list[Tensor] = []
        """Every tensor that a task may hold."""

    def watch(self, tensor: Tensor) -> None:
        """Counts a tensor of the run as alive until it is gone."""
        key, storage = id(tensor), storage_of(tensor)
        block = self._blocks.get(storage)
        if block is None or self._knows(tensor):
            return
        self._now.pop(key, None)
        block.live += 1

        def gone(_: weakref.ref[Tensor]) -> None:
            self._watched.pop(key, None)
            self._now.pop(key, None)
            block.live -= 1
            if not block.live:
                self._left.append(block)

        self._watched[key] = weakref.ref(tensor, gone)

    def _knows(self, tensor: Tensor) -> bool:
        """Whether it is watched, and not another that was there: an interrupt in `gone` leaves what it left."""
        watched = self._watched.get(id(tensor))
        return watched is not None and watched() is tensor

    def settle(self) -> None:
        """Gives back what the run has let go of; not while it lets go, when the last tensor is still there."""
        while self._left:
            self._left.pop().empty()

    def adopt(self, tensor: Tensor) -> None:
        """Takes a tensor that a task holds as it is: a constant, an input, or a view that was made for the task."""
        if id(tensor) in self._adopted:
            return
        self._adopted.add(id(tensor))
        self.all.append(tensor)
        block = self._blocks.get(storage_of(tensor))
        if block is not None:
            block.stand_ins += 1

    def forget(self, tensor: Tensor) -> None:
        """The tensor is about to change its shape: from here on another stands for it."""
        self._now.pop(id(tensor), None)

    def of(self, value: Any) -> Any:
        """The arguments of a task, with stand-ins for the tensors of the run."""
        return tree_map_only(Tensor, self._of, value)

    def _of(self, tensor: Tensor) -> Tensor:
        block = self._blocks.get(storage_of(tensor))
        if block is None:
            return tensor  # a constant or an input, which nobody moves
        stand_in = self._now.get(id(tensor)) if self._knows(tensor) else None
        if stand_in is None:
            self.watch(tensor)
            stand_in = self._now[id(tensor)] = same_place(tensor, block.storage)
            self.adopt(stand_in)
        return stand_in

    def finish(self) -> None:
        """After the run nobody is watched any more."""
        self._watched.clear()
        self._now.clear()
