"""Writes through a view of an input that the program changes.

    v = view(cache, ...); n = scatter(v, i, x); w = view(n, cache's size); copy_(cache, w)
        ->
    v = view(cache, ...); scatter_(v, i, x)

The update of a cache often happens on a view with another shape, and comes back through a second view. The
operators are those of the in-place table and the scatters; the copy and the second view disappear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from air_fxpasses._facts import Facts
from air_fxpasses.passes._reinplace import Reinplacing


@dataclass(frozen=True)
class RecoverViewInplace(Reinplacing):
    """Reinplaces operators whose argument is a proper view of an input that the program changes."""

    name: ClassVar[str] = "recover_view_inplace"
    option: ClassVar[str] = "air.view_inplace"

    def in_scope(self, facts: Facts, home: Node) -> bool:
        owner = facts.input_of(facts.storage(home))
        return owner is not None and home is not owner
