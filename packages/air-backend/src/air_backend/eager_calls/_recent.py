"""What the last calls were given, for gradients of gradients: a bounded number of bytes, whoever forgets what.

A call that kept its arguments itself would keep itself, where the program then writes the result into one of them
(`h += layer(h)`): autograd's node of the call, the argument, and the node again, which no collector sees.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from torch import Tensor

#: Bytes of arguments that are kept, of all functions.
LIMIT: Final = 64 << 20


class Recent:
    """Tensors, each as long as its owner lives and as nothing newer needs the room."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._bytes = 0
        self._held: OrderedDict[int, tuple[weakref.ref[object], Sequence[Tensor], int]] = OrderedDict()

    def hold(self, owner: object, tensors: Sequence[Tensor]) -> None:
        """Keeps some tensors, if there is room for them at all."""
        nbytes = sum(tensor.nbytes for tensor in tensors)
        if nbytes > self._limit or not tensors:
            return
        key = id(owner)
        self._held[key] = weakref.ref(owner, lambda _: self._drop(key)), tensors, nbytes
        self._bytes += nbytes
        while self._bytes > self._limit and self._held:
            self._drop(next(iter(self._held)))

    def release(self, owner: object) -> None:
        """Lets go of what is kept for an owner."""
        self._drop(id(owner))

    def _drop(self, key: int) -> None:
        held = self._held.pop(key, None)  # to the end of this: what goes with it may drop others
        if held is not None:
            self._bytes -= held[2]
