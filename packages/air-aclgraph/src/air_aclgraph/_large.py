"""Large inputs that stay in one memory are read where they lie, once copying them has cost as much as a capture.

    run(table, index)       the table is copied in each call; after so many calls the key is captured once more
    run(table, index)       the table is read where it is
    run(other, index)       captured once more: it is copied from then on

A table, the weights of a function without a module and the cache of another program are such inputs. What is made anew
for each call often gets the address of the one before, and would get another one as soon as that is held: its storage
has to be the same as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from air_aclgraph._memory import extent
from air_aclgraph._moved import is_made_by_recordings
from air_graph import storage_of

#: Bytes of an input that is watched for this.
LARGE: Final = 1 << 18

#: Calls with other memory until an input is watched no more.
MOVES_ALLOWED: Final = 4

#: A storage that is at most so many times as large as what the bound inputs read of it; a capture keeps all of it.
PARTS_ALLOWED: Final = 4


def large(tensors: Mapping[int, Tensor]) -> dict[int, int]:
    """The bytes that those reach of which copying takes longer than looking where they are."""
    reached = {index: int(extent(tensor)) * tensor.element_size() for index, tensor in tensors.items()}
    return {index: nbytes for index, nbytes in reached.items() if nbytes >= LARGE}


@dataclass
class _Place:
    """Where an input was in the last calls."""

    address: int = 0
    storage: StorageWeakRef | None = None
    """While this is here no other storage has its name."""
    nbytes: int = 0
    """Of that storage."""
    since: int = 0
    """The call, counted from 1, that brought it."""
    moves: int = -1

    @property
    def name(self) -> int:
        """The name of its storage."""
        return 0 if self.storage is None else self.storage.cdata

    def is_of(self, tensor: Tensor) -> bool:
        """Whether this tensor lies there."""
        return (
            self.storage is not None
            and self.address == tensor.data_ptr()
            and self.storage.cdata == storage_of(tensor)
        )

    def now(self, tensor: Tensor, call: int) -> None:
        """It lies elsewhere from this call on."""
        self.address, self.storage = tensor.data_ptr(), StorageWeakRef(tensor.untyped_storage())
        self.nbytes = tensor.untyped_storage().nbytes()
        self.since, self.moves = call, self.moves + 1


class Stays:
    """Counts the calls in which large inputs stayed where they are; says when that is enough, or is not to be."""

    def __init__(self, read: Mapping[int, int], calls: int) -> None:
        """Watches the inputs of which so many bytes are read."""
        self._read = dict(read)
        self._places = {index: _Place() for index in read}
        self._calls = calls
        self._seen = 0
        self._due = calls

    def __call__(self, args: Sequence[Any]) -> bool:
        self._seen += 1
        for index, place in list(self._places.items()):
            if not place.is_of(args[index]):
                place.now(args[index], self._seen)
                self._due = self._seen + self._calls
                if place.moves > MOVES_ALLOWED:
                    del self._places[index]
        return self.is_over()

    def is_over(self) -> bool:
        """Whether it is known of each input if it stays."""
        return not self._places or self._seen >= self._due

    def stable(self) -> list[int]:
        """The inputs that stayed; what a capture gives out is lent, or is written by other captures.

        Nor are small parts of a storage among them: the capture would keep it for them when its owner is gone.
        """
        found = {i: place for i, place in self._places.items() if place.storage is not None}
        read = Counter[int]()
        for index, place in found.items():
            read[place.name] += self._read[index]
        return [
            index
            for index, place in found.items()
            if place.nbytes <= PARTS_ALLOWED * read[place.name] and not is_made_by_recordings(place.address)
        ]
