"""One graph called with the parameters of several modules: one capture for each.

    for layer in layers: layer.compile(...)      Dynamo compiles the code of a layer once, for all of them

The parameters of two layers lie in different places, and neither moves. So a call with parameters that are not those of
the capture, while these are still where they were, has a key of its own: that of the shapes and of the sibling. A
parameter that moved itself (a reload, FSDP) is no sibling, and the key is captured again as for every other input.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from air_aclgraph._captured import Captured
from air_aclgraph._key import Key
from air_aclgraph._slots import Kind


@dataclass(frozen=True)
class Sibling:
    """The part of a key that tells the modules apart that share a graph."""

    number: int


class Siblings:
    """The parameters by which the captures of each shape key are told apart."""

    def __init__(self) -> None:
        self._owners: dict[Key, dict[Key, tuple[int, weakref.ref[nn.Parameter]]]] = {}

    def captured(self, key: Key, kinds: Sequence[Kind], args: Sequence[Any]) -> None:
        """Remembers whose parameters a key was captured with."""
        static = (
            i for i, kind in enumerate(kinds) if kind is Kind.STATIC and isinstance(args[i], nn.Parameter)
        )
        index = next(static, None)
        known = self._owners.setdefault(_shapes(key), {})
        known.pop(key, None)
        if index is not None:
            known[key] = (index, weakref.ref(args[index]))

    def are_several(self, key: Key) -> bool:
        """Whether these shapes were captured with the parameters of more than one module."""
        return len(self._owners.get(_shapes(key), ())) > 1

    def key_of(self, key: Key, args: Sequence[Any], captured: Mapping[Key, Captured], limit: int) -> Key:
        """The key of these shapes and of these parameters; siblings are not captured in the place of other keys."""
        known = self._owners.get(key, {})
        others, left = False, None
        for one, (index, owner) in known.items():
            parameter = owner()
            capture = captured.get(one)
            same = capture is not None and args[index].data_ptr() == capture.pointers[index]
            if parameter is args[index] or same:
                return one if capture is not None or len(captured) < limit else key
            left = one if parameter is None else left
            if parameter is not None and capture is not None:
                others |= parameter.data_ptr() == capture.pointers[index]
        if left is not None:
            return left  # of a module that is gone
        if not others or key not in captured or len(captured) >= limit:
            return key
        numbers = {one[-1].number for one in known if one and isinstance(one[-1], Sibling)}
        return (*key, Sibling(max(numbers, default=0) + 1))


def _shapes(key: Key) -> Key:
    return key[:-1] if key and isinstance(key[-1], Sibling) else key
