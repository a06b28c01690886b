"""One graph called with the parameters of several modules: one capture for each.

    for layer in layers: layer.compile(...)      Dynamo compiles the code of a layer once, for all of them

The parameters of two layers lie in different places, and neither moves. So a call with parameters that are not those of
the capture, while these are still where they were, has a key of its own: that of the shapes and of the sibling. A
parameter that moved itself (a reload, FSDP) is no sibling, and the key is captured again as for every other input.

Parameters are known by number and by their storage. A reference to one, weak as it may be, would forbid
`torch.utils.swap_tensors`, by which modules are converted and loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from air_aclgraph._captured import Captured
from air_aclgraph._kept import owners
from air_aclgraph._key import Key
from air_aclgraph._slots import Kind


@dataclass(frozen=True)
class Sibling:
    """The part of a key that tells the modules apart that share a graph."""

    number: int


@dataclass(frozen=True, eq=False)
class _Owner:
    """The parameter that an input of a key was given."""

    key: Key
    place: int
    number: int
    """What it is known by; another parameter may have the number when this one is gone."""
    storage: StorageWeakRef
    address: int
    holders: int
    """How many had the storage when it was captured; a capture may be among them, and keep it alive."""

    @classmethod
    def of(cls, key: Key, place: int, parameter: nn.Parameter) -> _Owner:
        storage = parameter.untyped_storage()
        known = StorageWeakRef(storage), storage.data_ptr(), owners(storage._cdata)
        return cls(key, place, id(parameter), *known)

    def is_gone(self) -> bool:
        """Whether nobody has the parameter any more, as far as its storage tells."""
        storage = self._storage()
        return storage is None or owners(storage._cdata) < self.holders

    def is_in_place(self) -> bool:
        """Whether its memory is where it was, and has not been emptied."""
        storage = self._storage()
        return storage is not None and storage.data_ptr() == self.address

    def _storage(self) -> torch.UntypedStorage | None:
        found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        return found


class Siblings:
    """The parameters by which the captures of each shape key are told apart."""

    def __init__(self) -> None:
        self._owners: dict[Key, dict[Key, _Owner]] = {}
        self._by_parameter: dict[tuple[Key, int], _Owner] = {}
        """The same by shapes and parameter: what every call of a sibling asks, however many there are."""
        self._index = 0  # of the input that was last asked for its module

    def captured(self, key: Key, kinds: Sequence[Kind], args: Sequence[Any]) -> None:
        """Remembers whose parameters a key was captured with."""
        static = (
            i for i, kind in enumerate(kinds) if kind is Kind.STATIC and isinstance(args[i], nn.Parameter)
        )
        index = next(static, None)
        self.forget(key)
        if index is not None:
            self._remember(key, index, args[index])

    def forget(self, key: Key) -> None:
        """Nothing is known of a key any more."""
        shapes = shapes_of(key)
        known = self._owners.get(shapes, {})
        old = known.pop(key, None)
        if not known:
            self._owners.pop(shapes, None)
        if old is not None and self._by_parameter.get((shapes, old.number)) is old:
            del self._by_parameter[shapes, old.number]

    def forget_idle(self, key: Key, captured: Mapping[Key, Captured]) -> None:
        """Nothing is known any more of a key, and of others of its shapes that never came to a capture."""
        self.forget(key)
        for other in [other for other in self._owners.get(shapes_of(key), ()) if other not in captured]:
            self.forget(other)

    def _remember(self, key: Key, index: int, parameter: nn.Parameter) -> None:
        shapes, owner = shapes_of(key), _Owner.of(key, index, parameter)
        self._owners.setdefault(shapes, {})[key] = owner
        self._by_parameter[shapes, owner.number] = owner
        self._index = index

    def are_several(self, key: Key) -> bool:
        """Whether these shapes were captured with the parameters of more than one module."""
        return len(self._owners.get(shapes_of(key), ())) > 1

    def key_of(self, key: Key, args: Sequence[Any], captured: Mapping[Key, Captured]) -> Key:
        """The key of these shapes and of these parameters, which no other module is captured under."""
        one = self._by_parameter.get((key, id(args[self._index]))) if self._by_parameter else None
        if one is not None and one.place == self._index:
            return one.key
        known = self._owners.get(key, {})
        found = self._among(known.values(), args, captured)
        return self._new(key, known, args, captured) if found is None else found

    def _among(
        self, known: Iterable[_Owner], args: Sequence[Any], captured: Mapping[Key, Captured]
    ) -> Key | None:
        """The key of the module of a call; without one that of a module that is gone."""
        left = None
        for one in known:
            capture = captured.get(one.key)
            if one.number == id(args[one.place]):
                return one.key
            if capture is not None and args[one.place].data_ptr() == capture.pointers[one.place]:
                return one.key
            left = one.key if one.is_gone() else left
        return left

    def _new(
        self, key: Key, known: Mapping[Key, _Owner], args: Sequence[Any], captured: Mapping[Key, Captured]
    ) -> Key:
        """A key of its own for a module, where the parameters of another one are where they were captured."""
        others = [
            one for one in known.values() if one.key in captured and not one.is_gone() and one.is_in_place()
        ]
        if not others or key not in captured:
            return key
        numbers = {each[-1].number for each in known if is_sibling(each)}
        sibling = (*key, Sibling(max(numbers, default=0) + 1))
        index = others[0].place
        if isinstance(args[index], nn.Parameter):
            self._remember(sibling, index, args[index])
        return sibling


def is_sibling(key: Key) -> bool:
    """Whether a key tells modules apart that share a graph."""
    return bool(key) and isinstance(key[-1], Sibling)


def shapes_of(key: Key) -> Key:
    """The key without the part that tells modules apart."""
    return key[:-1] if is_sibling(key) else key
