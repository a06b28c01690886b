"""Writes straight into the inputs that the program changes, KV caches first.

    new = index_put(cache, [i], k); y = attend(q, new); copy_(cache, new)
        ->
    new = index_put_(cache, [i], k); y = attend(q, new)

The copy of the whole cache and the copy back disappear together. This holds for scatters, chains of
updates, views of the input, and operators that update several inputs at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from air_fxpasses._facts import Facts
from air_fxpasses.passes._reinplace import Reinplacing


@dataclass(frozen=True)
class ReinplaceInputMutated(Reinplacing):
    """Reinplaces operators whose argument is the memory of an input that the program changes."""

    name: ClassVar[str] = "reinplace_input_mutated"
    option: ClassVar[str] = "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"

    def in_scope(self, facts: Facts, home: Node) -> bool:
        return facts.input_of(facts.storage(home)) is not None
