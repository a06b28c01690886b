"""Refuses higher-order operators that need the host in the middle of a capture.

A device repeats the kernels of one run.  What the host did between them (looked at a predicate, counted rounds, saved
the state of a generator, printed) is not repeated, so it must not be captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Node

from air_aclgraph.errors import IllegalDuringCapture, Where
from air_graph import bodies_of
from air_graph import source_of as where

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
    _PREDICATE: "compute both sides and choose with torch.where, decide outside the compiled function, or run this "
    "model with run_eagerly",
    _STATE: "checkpoint with preserve_rng_state=False, keep random operators out of what is checkpointed, or run this "
    "model with run_eagerly",
    _EFFECT: "keep it outside the compiled function, or run this model with run_eagerly",
}


def refuse_host_decisions(node: Node, runtime: str) -> None:
    """Raises for a node, or a node in a graph it is given, that a device cannot repeat."""
    for inner in _with_bodies(node):
        hop = _needing_host(inner)
        if hop is None:
            continue
        reason = _REASONS[hop]
        inside = "" if inner is node else f" (inside {node.target})"
        raise IllegalDuringCapture(
            f"{hop}{inside} cannot be captured on the {runtime} runtime: {reason}",
            where=_line(inner, node),
            advice=_ADVICE[reason],
            operator=hop,
        )


def _needing_host(node: Node) -> str | None:
    """The name of the operator that needs the host; one that is ordered by tokens is an argument."""
    for target in (node.target, *node.args):
        name = str(target.name()) if isinstance(target, HigherOrderOperator) else ""
        decides = name in _REASONS and (name != "cond" or _is_tensor(node.args[0]))
        if decides:  # a number is part of the key, and the branch is chosen when that is captured
            return name
    return None


def _line(*nodes: Node) -> Where | None:
    """The user's line; a node that the partitioner of training graphs made has none, but its neighbours do."""
    near = [around for node in nodes for around in (node, *node.all_input_nodes, *node.users)]
    return next((line for line in map(where, near) if line is not None), None)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Node) and isinstance(value.meta.get("val", torch.empty(0)), torch.Tensor)


def _with_bodies(node: Node) -> Iterator[Node]:
    """The node, and the nodes of graphs among its arguments."""
    yield node
    for body in bodies_of(node):
        for inner in body.graph.nodes:
            yield from _with_bodies(inner)
