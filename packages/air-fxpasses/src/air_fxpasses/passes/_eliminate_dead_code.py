"""Removes nodes whose value is not used and that do nothing else.

    a = relu(x); b = neg(x); return b      ->      b = neg(x); return b

Kept are writes, operators without results, side effects registered with torch, and random draws, whose
removal would move the generator for every later draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_graph import draws_random_numbers, effects_of


@dataclass(frozen=True)
class EliminateDeadCode(Pass):
    """Dead code elimination that respects writes, side effects and random draws."""

    name: ClassVar[str] = "eliminate_dead_code"

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        removed = 0
        for node in reversed(list(gm.graph.nodes)):
            if not node.users and _is_removable(node):
                facts.erase(node)
                removed += 1
        return PassResult(removed > 0, notes=(f"{removed} dead nodes removed",) if removed else ())


def _is_removable(node: Node) -> bool:
    if node.op in ("placeholder", "output") or node.is_impure():
        return False
    target = node.target
    if effects_of(target).hides_writes:
        return False
    if isinstance(target, OpOverload):
        return bool(target._schema.returns) and not draws_random_numbers(node)
    return node.op in ("get_attr", "call_function")
