"""Stream code inside the bodies of higher-order operators: a branch, a loop, a checkpoint, an autograd.Function.

    cond(p, body)     # in the body: with npu_stream_switch("side"): ...

A body runs on one stream, that of its operator, in the order of the program. So its stream code is taken out, and the
operator itself comes after all that the streams of the body have to do, and before what they are given later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from air_graph import bodies_of, duplicate, place_of, source_of, warn_at
from air_streams import _library
from air_streams.errors import ScopeIgnored

_INLINED: Final = frozenset(("autograd_function_apply",))
"""AOTAutograd writes the operators of such a body into the graph; a checkpoint's only where nothing is trained."""
_CHECKPOINT: Final = "tag_activation_checkpoint"


@dataclass
class Inside:
    """What the stream code of a body speaks of: streams by tag, events by key, or torch's own by Dynamo's number."""

    tags: dict[str, None] = field(default_factory=dict)
    waited: dict[str, None] = field(default_factory=dict)
    recorded: dict[str, None] = field(default_factory=dict)
    streams: dict[int, None] = field(default_factory=dict)
    waited_numbers: dict[int, None] = field(default_factory=dict)
    recorded_numbers: dict[int, None] = field(default_factory=dict)
    waits_for_tensors: bool = False
    scopes: dict[str, None] = field(default_factory=dict)
    """What else is taken out: scopes that order nothing."""

    def has_order(self) -> bool:
        """Whether anything of it is for the order of streams."""
        return self.waits_for_tensors or any(
            (self.tags, self.waited, self.recorded, self.streams, self.waited_numbers, self.recorded_numbers)
        )


class Native(Protocol):
    """What tells torch's own stream code."""

    def is_in(self, node: Node) -> bool:
        """Whether the node is such code, or in a block of it."""

    def is_call(self, node: Node) -> bool:
        """Whether the node is such code itself."""

    def note(self, node: Node, inside: Inside) -> bool:
        """Notes what it speaks of; says no where the host waits."""


_SCOPES: Final[dict[Any, str]] = {
    _library.CORE_LIMIT_ENTER: "core limits",
    _library.ATTRIBUTES_ENTER: "attributes for the graph engine",
}
_STREAM_OPS: Final = _library.STREAM_OPS | {op.overloadpacket for op in _library.STREAM_OPS}


def has_streams(node: Node, native: Native) -> bool:
    """Whether a body of the node has stream code that has to be taken out."""
    if not isinstance(node.target, HigherOrderOperator):
        return False
    stays = _is_inlined(node)
    return any(
        native.is_in(inner) or (not stays and inner.target in _STREAM_OPS)
        for graph in _graphs(bodies_of(node))
        for inner in graph.nodes
    )


def is_around_bodies_alone(graph: fx.Graph, native: Native) -> bool:
    """Whether all stream code of a graph is in bodies from which it is taken out: then nothing has to be ordered."""
    return not any(
        node.target in _STREAM_OPS
        or native.is_in(node)
        or (bool(bodies_of(node)) and not has_streams(node, native))
        for node in graph.nodes
    )


def _is_inlined(node: Node) -> bool:
    return _name(node) in _INLINED or (_name(node) == _CHECKPOINT and not is_trained_checkpoint(node))


def is_trained_checkpoint(node: Node) -> bool:
    """Whether the node is a checkpoint through which gradients are asked for."""
    if not isinstance(node.target, HigherOrderOperator) or _name(node) != _CHECKPOINT:
        return False
    values = [n.meta.get("example_value") for n in node.all_input_nodes]
    trains = any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)
    return trains and torch.is_grad_enabled()


def _name(node: Node) -> str:
    return str(getattr(node.target, "name", str)())


def _graphs(modules: Iterable[GraphModule]) -> Iterator[fx.Graph]:
    for module in modules:
        for part in module.modules():
            if isinstance(part, GraphModule):
                yield part.graph


def warn_of_ignored(node: Node, inside: Inside) -> None:
    """Says what was taken out of the bodies of an operator, at the user's line."""
    what = " and ".join((*(("streams",) if inside.has_order() else ()), *inside.scopes)) or "streams"
    text = f"the {what} in the body of {node.target} are ignored: it runs as its operator does, on one stream"
    warn_at(
        source_of(node),
        ScopeIgnored(f"{text} in the order of the program\n  at {place_of(node)}"),
        "air_streams",
    )


def taken_out(node: Node, native: Native) -> Inside | None:
    """Takes the stream code out of copies of the bodies; None where one lets the host wait, or gives a marker."""
    owner: Any = node.graph.owning_module
    names = [str(n.target) for n in node.all_input_nodes if n.op == "get_attr"]
    bodies = {name: body for name in names if isinstance(body := getattr(owner, name, None), GraphModule)}
    inside = Inside()
    copies = {name: duplicate(body) for name, body in bodies.items()}
    if not all(_take_out(graph, native, inside) for graph in _graphs(copies.values())):
        return None
    for name, body in copies.items():
        for part in body.modules():
            if isinstance(part, GraphModule):
                part.recompile()
        setattr(owner, name, body)
    return inside


def _take_out(graph: fx.Graph, native: Native, inside: Inside) -> bool:
    dead = [node for node in graph.nodes if native.is_call(node) or node.target in _STREAM_OPS]
    gone = set(dead)
    if any(user not in gone for node in dead for user in node.users):
        return False
    for node in graph.nodes:
        if native.is_in(node):
            if not native.note(node, inside):
                return False
        elif node in gone:
            _note(node, inside)
    for node in reversed(dead):
        graph.erase_node(node)
    return True


def _note(node: Node, inside: Inside) -> None:
    op = getattr(node.target, "default", node.target)
    first = str(node.args[0]) if node.args else ""
    if op is _library.STREAM_ENTER:
        inside.tags[first] = None
    elif op is _library.RECORD_STREAM:
        inside.tags[str(node.args[1])] = None
    elif op is _library.EVENT_RECORD:
        inside.recorded[first] = None
    elif op is _library.EVENT_WAIT and first not in inside.recorded:
        inside.waited[first] = None
    elif op is _library.WAIT:
        inside.waits_for_tensors = True
    elif op in _SCOPES:
        inside.scopes[_SCOPES[op]] = None
