"""Removes nodes whose value is not used and that do nothing else.

    a = relu(x); b = neg(x); return b      ->      b = neg(x); return b

Kept are writes, operators without results, side effects registered with torch, and random draws, whose
removal would move the generator for every later draw; also where they are in a graph that an operator is
given. A function without a schema may do anything, and is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_graph import bodies_of, draws_random_numbers, effects_of, effects_of_node


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
    if effects_of(target).hides_writes or draws_random_numbers(node):
        return False
    if isinstance(target, OpOverload):
        return bool(target._schema.returns)
    if node.op != "call_function":
        return node.op == "get_attr"
    return not effects_of_node(node).opaque and not any(map(_does_something, bodies_of(node)))


def _does_something(body: GraphModule) -> bool:
    """Whether a graph that a higher-order operator is given does more than to compute its results."""
    return any(
        node.op not in ("placeholder", "output", "get_attr") and not _is_removable(node)
        for node in body.graph.nodes
    )
