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

from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_fxpasses.passes._reinplace import run_over


@dataclass(frozen=True)
class ReinplaceInputMutated(Pass):
    """Reinplaces operators whose argument is the memory of an input that the program changes."""

    name: ClassVar[str] = "reinplace_input_mutated"
    option: ClassVar[str] = "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"
    places_values: ClassVar[bool] = True

    off_because: str = ""
    """When not empty, the pass does nothing and gives this as the reason for every candidate."""

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        def in_scope(home: Node) -> bool:
            storage = facts.storage(home)
            return storage is not None and facts.input_of(storage) is not None

        return run_over(facts, into_inputs=True, in_scope=in_scope, off_because=self.off_because)
