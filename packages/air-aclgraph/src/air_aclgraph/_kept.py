"""Decides how the outputs of one shape key reach callers who may keep them: as copies, or as the capture's own memory.

A caller may keep an output for as long as it likes: in a list, as a view, as an array of numpy, as a gradient.  So a
key begins with copies, and looks at each call whether everything that the call before returned is gone.

    watched   copies; after `LEND_AFTER` calls in a row that found everything gone -> lent
                      after `GIVE_UP_AFTER` calls that found something kept      -> copied
    lent      fresh tensors over the memory of the capture itself, no copy; each call asks the storages first
              whether anybody still has them.  If so, that memory is never written again: another capture is made,
              with outputs in other memory                                       -> copied
    copied    copies, for good
    saved     of the forward half of a training step: lent what its backward half alone reads, the rest copied

Autograd lets go of what it saved when the backward has run.  What it has longer than until the next call (two forwards
before a backward, `retain_graph`) is copied from then on.

What is asked is the count of owners of a storage: every tensor, view, array and saved gradient over it is one.  The
capture's own tensors are owners as well; they are counted once, when it is made, and stay as long as it does.  A
storage that somebody has as a Python object is one owner however many have it: that object's references are counted
too, and one is held here, so that it is always there.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from air_graph import storage_of

#: Calls in a row that found every output of the call before gone, before memory is lent.
LEND_AFTER: Final = 4
#: Calls that found an output of the call before kept, before copies are made without looking.
GIVE_UP_AFTER: Final = 8

owners: Final = torch._C._storage_Use_Count
references: Final = sys.getrefcount


def _alone() -> tuple[int, int]:
    """References to the Python object of a storage that one tuple has, and owners of the storage for its sake."""
    tensor = torch.empty(1)
    cell = (tensor.untyped_storage(),)
    return references(cell[0]), owners(cell[0]._cdata) - 1


REFERENCES, _OWNERS_AS_OBJECT = _alone()


class Stage(enum.Enum):
    """What a caller gets."""

    WATCHED = "copied, watched"
    LENT = "lent"
    COPIED = "copied"
    SAVED = "copied, but lent what the backward half alone reads"


@dataclass(frozen=True)
class Loan:
    """Memory of a capture that callers are given: it is free when its storage has no owners but the capture's own."""

    tensor: Tensor
    cell: tuple[torch.UntypedStorage]
    storage: int
    owners: int
    pointer: int

    @classmethod
    def of(cls, tensor: Tensor, claims: int) -> Loan:
        """The storage of a tensor that `claims` tensors of the capture share."""
        storage = tensor.untyped_storage()
        return cls(tensor, (storage,), storage._cdata, claims + _OWNERS_AS_OBJECT, tensor.data_ptr())

    def is_held(self) -> bool:
        """Whether somebody has it still, or has given the storage other memory (`resize_`, `share_memory_`)."""
        return (
            owners(self.storage) != self.owners
            or references(self.cell[0]) != REFERENCES
            or self.tensor.data_ptr() != self.pointer
        )


@dataclass
class Keeping:
    """How the outputs of one shape key are handed out."""

    stage: Stage = Stage.WATCHED
    pinned: bool = False
    unlent: set[int] = field(default_factory=set)
    """Saved results that somebody had for longer than until the next call."""
    _gone: int = 0
    _kept: int = 0
    _given: list[StorageWeakRef] = field(default_factory=list, repr=False)

    def watch(self, outputs: Sequence[Tensor]) -> None:
        """Remembers, without keeping them, the copies that a call returns."""
        self._given = [StorageWeakRef(tensor.untyped_storage()) for tensor in outputs]

    def is_settled(self) -> bool:
        """Asked at each call while watched: whether it is known by now what callers do."""
        if self._given:
            gone = all(storage.expired() for storage in self._given)
            self._gone = self._gone + 1 if gone else 0
            self._kept += not gone
            self._given = []
        return self._gone >= LEND_AFTER or self._kept >= GIVE_UP_AFTER

    def settle(self) -> str | None:
        """Goes from watching to what was found; says so, or None where nothing is found yet."""
        if self.stage is not Stage.WATCHED or not self.is_settled():
            return None
        self.stage = Stage.LENT if self._gone >= LEND_AFTER else Stage.COPIED
        if self.stage is Stage.LENT:
            return "outputs: copied -> lent, nobody keeps them"
        return "outputs: copied from now on, they are kept across calls"

    def give_up(self, held: Collection[int] = (), of: Collection[int] = ()) -> None:
        """Copies from now on; of saved results only those at the places of `held`, where that is not all of them."""
        self.unlent.update(held)
        if self.stage is not Stage.SAVED or self.unlent.issuperset(of):
            self.stage = Stage.COPIED

    def pin(self) -> None:
        """A pinned handle replays this capture and hands out its memory: everybody else gets copies."""
        self.stage, self.pinned = Stage.COPIED, True


class Holders:
    """The tensors that a recording has, and the tensors that they are views of, by their storages.

    A tensor may be given another storage later: those of one storage are asked once more where they are.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors: dict[int, dict[int, Tensor]] = {}
        for tensor in tensors:
            self._add(tensor)
            if tensor._base is not None:
                self._add(tensor._base)

    def _add(self, tensor: Tensor) -> None:
        self._tensors.setdefault(storage_of(tensor), {})[tensor._cdata] = tensor

    def of(self, storage: int) -> dict[int, Tensor]:
        """The tensors over one storage, by identity: each is one owner of it."""
        found = self._tensors.get(storage, {})
        return {key: tensor for key, tensor in found.items() if storage_of(tensor) == storage}

    def claims(self) -> dict[int, int]:
        """How many owners each storage has in these tensors."""
        return {storage: len(tensors) for storage, tensors in self._tensors.items()}


def loans_of(own: Sequence[Tensor], claims: Mapping[int, int]) -> tuple[Loan, ...] | None:
    """One loan for each storage among a capture's own outputs; None where somebody else has one of them."""
    first = {storage_of(tensor): tensor for tensor in own}
    loans = [Loan.of(tensor, claims.get(storage, 0)) for storage, tensor in first.items()]
    return None if any(loan.is_held() for loan in loans) else tuple(loans)
