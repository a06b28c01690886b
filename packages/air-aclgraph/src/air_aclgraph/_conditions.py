"""`torch.cond` inside a capture: both branches are captured, and the device runs one of them in each replay.

    begin_capture_to_if_node(p);      y = then(x);            end_capture_to_conditional_node()
    begin_capture_to_if_node(not p);  y.copy_(otherwise(x));  end_capture_to_conditional_node()

Conditional nodes are in CANN of late, and in torch_npu from 2.13 on. A device that refuses one is not asked again.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from air_aclgraph.errors import CUT_OR_EAGER, IllegalDuringCapture
from air_fxpasses.tables import updatable_of
from air_graph import attribute, bodies_of, draws_random_numbers, is_collective, operator_of
from air_graph import source_of as where
from air_graph.errors import first_line
from air_graph.pieces import is_unbacked

log = logging.getLogger(__name__)

_COND: Final = torch.ops.higher_order.cond
_refused: Final[list[str]] = []
"""Why a device refused a conditional node, where one has."""
_rings: Final[dict[torch.device, list[Any]]] = {}
"""The streams that torch_npu hands out, in their order."""


def has_conditional_nodes(device: torch.device) -> bool:
    """Whether captures on a device can hold them."""
    package = sys.modules.get("torch_npu")
    if device.type != "npu" or package is None or _refused:
        return False
    if not hasattr(package.npu.NPUGraph, "begin_capture_to_if_node"):
        return False
    try:
        return hasattr(ctypes.CDLL("libascendcl.so"), "aclmdlRIAddCondTask")
    except OSError:
        return False


def is_conditional_node(
    node: Node, device: torch.device, uncapturable: Callable[[GraphModule, torch.device], Any]
) -> bool:
    """Whether an operator is a `cond` whose branches a capture on this device can hold.

    `uncapturable` says what it cannot hold of a graph.
    """
    if node.target is not _COND or not has_conditional_nodes(device):
        return False
    predicate = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not isinstance(predicate, Tensor) or predicate.device.type != device.type:
        return False
    if not all(
        isinstance(leaf, Tensor) and not is_unbacked(leaf) for leaf in tree_leaves(node.meta.get("val"))
    ):
        return False
    return all(_is_plain(body, device) and not uncapturable(body, device) for body in bodies_of(node))


def _is_plain(body: GraphModule, device: torch.device) -> bool:
    """Whether a branch computes on the device alone, the same in every run, for itself."""
    for node in body.graph.nodes:
        if node.op == "output" or _is_body(body, node):
            continue
        value = node.meta.get("val")
        if value is None or any(
            isinstance(t, Tensor) and t.device.type != device.type for t in tree_leaves(value)
        ):
            return False
        called = operator_of(node)
        if called is None:
            continue
        if draws_random_numbers(node) or is_collective(called[0]):
            return False
        if updatable_of(node.target) is not None:
            return False
    return True


def _is_body(body: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(attribute(body, str(node.target)), GraphModule)


def refuse(reason: str) -> None:
    """Notes that a device cannot hold a conditional node: graphs are cut there from now on."""
    _refused.append(reason)
    log.warning("conditional nodes are not used any more in this process: %s", reason)


def captured(graph: Any, node: Node, args: Sequence[Any]) -> Any:
    """The results of a `cond` that is being captured into `graph`; the arguments are real."""
    try:
        return _Branches(graph).choose(*args)
    except torch.OutOfMemoryError:
        raise  # it says nothing of conditional nodes
    except RuntimeError as error:
        reason = first_line(error)
        refuse(reason)
        raise IllegalDuringCapture(
            f"cond was refused inside a capture: {reason}",
            where=where(node),
            advice=CUT_OR_EAGER,
            operator="cond",
        ) from error


class _Branches:
    """Captures branches, and those inside of them."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def choose(
        self, predicate: Tensor, then: GraphModule, otherwise: GraphModule, operands: Sequence[Any]
    ) -> Any:
        """The results, in memory that either branch writes."""
        truth = predicate.reshape(())
        leaves, spec = tree_flatten(self._under(truth, then, operands, None))
        self._under(truth.logical_not(), otherwise, operands, leaves)
        return tree_unflatten(leaves, spec)

    def _under(
        self, predicate: Tensor, body: GraphModule, operands: Sequence[Any], into: Sequence[Tensor] | None
    ) -> Any:
        """What a branch gives, captured under a predicate; copied into memory of the other where that is there."""
        _go_to_a_free_stream(predicate.device)
        self._graph.begin_capture_to_if_node(predicate)
        try:
            leaves, spec = tree_flatten(_Body(body, self).run(*operands))
            if into is None:
                return tree_unflatten([leaf.clone() for leaf in leaves], spec)
            for own, leaf in zip(into, leaves, strict=True):
                own.copy_(leaf)
            return None
        finally:
            self._graph.end_capture_to_conditional_node()


def _go_to_a_free_stream(device: torch.device) -> None:
    """Has torch_npu take a stream for a branch that no capture is on: it takes the next of a ring, whatever that is."""
    module: Any = torch.get_device_module(device.type)
    ring = _rings.setdefault(device, [])
    if not ring:
        ring.append(module.Stream(device=device))
        while (following := module.Stream(device=device)) != ring[0]:
            ring.append(following)
    for _ in ring:
        following = ring[(ring.index(module.Stream(device=device)) + 1) % len(ring)]
        with module.stream(following):
            if not module.is_current_stream_capturing():
                return


class _Body(Interpreter):
    """Runs a branch; a `cond` in it is captured as well."""

    def __init__(self, body: GraphModule, branches: _Branches) -> None:
        super().__init__(body)
        self._branches = branches

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is _COND:
            return self._branches.choose(*args)
        return super().call_function(target, args, kwargs)
