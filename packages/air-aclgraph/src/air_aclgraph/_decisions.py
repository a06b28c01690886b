"""Which higher-order operators cannot be captured, and why.

    on a device     cond over a tensor, while_loop     the host looks at its predicate
                    checkpoints with random numbers    the host saves and sets the state of the generator
                    print, call_torchbind              the host does something that no replay repeats
    on the CPU      a result of unknown size           what follows was captured for the size it had

A device repeats the kernels of one run, so what the host did between them must not be captured.  On the CPU the
operator itself is run again in every replay, and only its results have to be what they were.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import SymBool, SymFloat, SymInt
from torch._ops import HigherOrderOperator
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from air_aclgraph.errors import CUT_OR_EAGER, IllegalDuringCapture
from air_graph import SourceLine, bodies_of, nearest_source_of
from air_graph.pieces import is_unbacked

_PREDICATE: Final = "the host looks at its predicate to choose what runs"
_STATE: Final = "the host saves and sets the state of the generator around it"
_EFFECT: Final = "what it does on the host would be done by the capture alone, not by replays"

_REASONS: Final = {
    "cond": _PREDICATE,
    "while_loop": _PREDICATE,
    "while_loop_stack_output": _PREDICATE,
    "run_and_save_rng_state": _STATE,
    "run_with_rng_state": _STATE,
    "graphsafe_run_with_rng_state": _STATE,
    "print": _EFFECT,
    "call_torchbind": _EFFECT,
}

_ADVICE: Final = {
    _PREDICATE: "compute both sides and choose with torch.where, or decide outside the compiled function",
    _STATE: "checkpoint with preserve_rng_state=False, or keep random operators out of what is checkpointed",
    _EFFECT: "keep it outside the compiled function",
}
OF_RESULTS: Final = "make the result a tensor of one size whatever is decided, or keep the operator outside"


@dataclass(frozen=True)
class Decision:
    """Why one operator, or one inside its bodies, cannot be captured."""

    operator: str
    reason: str
    advice: str
    where: SourceLine | None

    def error(self, runtime: str) -> IllegalDuringCapture:
        """The refusal of a runtime that was given it all the same."""
        return IllegalDuringCapture(
            f"{self.operator} cannot be captured on the {runtime} runtime: {self.reason}",
            where=self.where,
            advice=f"{self.advice}, {CUT_OR_EAGER}",
            operator=self.operator,
        )


def decision(node: Node, device: str) -> Decision | None:
    """Why a device of this type cannot capture the operator of a node; None for what it can."""
    if not isinstance(node.target, HigherOrderOperator):
        return None
    return _of_results(node) if device == "cpu" else _of_host(node)


def _of_host(node: Node) -> Decision | None:
    for inner in _with_bodies(node):
        hop = _needing_host(inner)
        if hop is not None:
            inside = "" if inner is node else f" (inside {node.target})"
            reason = _REASONS[hop]
            return Decision(hop, reason + inside, _ADVICE[reason], nearest_source_of(inner, node))
    return None


def _needing_host(node: Node) -> str | None:
    """The name of the operator that needs the host; one that is ordered by tokens is an argument."""
    for target in (node.target, *node.args):
        name = str(target.name()) if isinstance(target, HigherOrderOperator) else ""
        decides = name in _REASONS and (name != "cond" or _is_tensor(node.args[0]))
        if decides:  # a number is part of the key, and the branch is chosen when that is captured
            return name
    return None


def _is_tensor(value: object) -> bool:
    return isinstance(value, Node) and isinstance(value.meta.get("val", torch.empty(0)), torch.Tensor)


def _with_bodies(node: Node) -> Iterator[Node]:
    """The node, and the nodes of graphs among its arguments."""
    yield node
    for body in bodies_of(node):
        for inner in body.graph.nodes:
            yield from _with_bodies(inner)


def _of_results(node: Node) -> Decision | None:
    unused = unused_results(node)
    for index, leaf in enumerate(tree_leaves(node.meta.get("val"))):
        if index in unused or not is_unbacked(leaf):
            continue
        number = isinstance(leaf, (SymInt, SymFloat, SymBool))
        what = "is a number" if number else f"has the size {tuple(leaf.shape)}"
        reason = f"its result {index} {what} that only a run of it can tell"
        return Decision(str(node.target), reason, OF_RESULTS, nearest_source_of(node))
    return None


def unused_results(node: Node) -> frozenset[int]:
    """The results that nobody looks at; a loop's counter is often one of them."""
    if not all(user.target is operator.getitem and isinstance(user.args[1], int) for user in node.users):
        return frozenset()
    value = node.meta.get("val")
    if not isinstance(value, (tuple, list)) or len(value) != len(tree_leaves(value)):
        return frozenset()
    used = {user.args[1] for user in node.users if user.users}
    return frozenset(index for index in range(len(value)) if index not in used)
