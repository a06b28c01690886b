"""Puts on the device, once, what a graph computes on the host from literals and sizes alone.

    x + torch.arange(5).to(x.device)        ->    x + held          (a tensor of the device, made when compiling)
    x[:, torch.tensor([2, 0, 1])]           ->    x[:, held]

Without this each of them would cut the graph: a capture cannot hold a copy from the host. What a symbolic size decides
is not known when the graph is compiled; a graph is cut there, and the part that computes it runs once for each size
(`air_graph.pieces`).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_aclgraph._uncapturable import copies_from_host
from air_graph import (
    Symbols,
    attribute,
    decided_by_sizes,
    is_on_host,
    place_of,
    recompute_views,
    uses_of,
)

aten = torch.ops.aten


@dataclass(frozen=True)
class HostConstant:
    """A value that was computed on the host and lies on the device now."""

    node: str
    target: str
    nbytes: int
    source: str | None = None


def hold_host_constants(gm: GraphModule, device: torch.device, limit: int) -> tuple[HostConstant, ...]:
    """Puts them into a graph of ATen operators, up to `limit` bytes of the device's memory; says which."""
    if device.type == "cpu":
        return ()
    by_symbols = decided_by_sizes(gm.graph)
    decided = {node for node, symbols in by_symbols.items() if not symbols}
    made: dict[Node, Any] = {}
    held: dict[Node, Node] = {}
    found: list[HostConstant] = []
    for user, value in list(_crossings(gm, decided)):
        if value not in held:
            nbytes = value.meta["val"].numel() * value.meta["val"].element_size()
            if nbytes > limit:
                continue
            limit -= nbytes
            held[value] = _hold(gm, value, device, made)
            found.append(HostConstant(value.name, str(value.target), nbytes, place_of(user)))
        if user is value:
            user.replace_all_uses_with(held[value])
        else:
            user.replace_input_with(value, held[value])
    _spare(gm, held.values())
    copied = _copied_by_themselves(gm, by_symbols, device)
    if found or copied:
        _erase_unused(gm, decided)
        gm.recompile()
    return tuple(found)


def _copied_by_themselves(gm: GraphModule, decided: Collection[Node], device: torch.device) -> bool:
    """Gives each value of the host that is left to go to the device a node that does nothing but copy it."""
    copies: dict[Node, Node] = {}
    for user, value in list(_crossings(gm, decided)):
        if user is value:
            copies[value] = value
            continue
        if value not in copies:
            with gm.graph.inserting_after(value):
                copies[value] = gm.graph.call_function(aten._to_copy.default, (value,), {"device": device})
            copies[value].meta["val"] = _moved(value.meta["val"], device)
            copies[value].meta["stack_trace"] = user.meta.get("stack_trace")
        user.replace_input_with(value, copies[value])
    _spare(gm, copies.values())
    return bool(copies)


def decided_by_symbols(gm: GraphModule, apart: Collection[Node]) -> dict[Node, Symbols]:
    """Those of `apart` that need not run again while the sizes are the same, with the symbols of those sizes.

    What no symbol decides is one of them where it serves nothing else: elsewhere it was too large to be held.
    """
    found: dict[Node, Symbols] = {}
    decided = decided_by_sizes(gm.graph)
    for node in gm.graph.nodes:
        computed = [n for n in node.all_input_nodes if n in apart]
        if (
            node in apart
            and node in decided
            and all(n in found for n in computed)
            and not _is_given_away(node)
        ):
            found[node] = decided[node]
    for node in reversed(gm.graph.nodes):
        if node in found and not found[node] and not all(user in found for user in node.users):
            del found[node]
    return found


def _crossings(gm: GraphModule, decided: Collection[Node]) -> Iterator[tuple[Node, Node]]:
    """Nodes that bring a value of the host to the device, with that value: the node itself where it only copies."""
    for node in gm.graph.nodes:
        if not copies_from_host(node):
            continue
        if node in decided and node.target is aten._to_copy.default:
            yield node, node
        else:
            yield from (
                (node, value) for value in node.all_input_nodes if value in decided and is_on_host(value)
            )


def _hold(gm: GraphModule, value: Node, device: torch.device, made: dict[Node, Any]) -> Node:
    """A node for the value as a tensor of the device, which the module keeps."""
    with unset_fake_temporarily(), torch.inference_mode(False), torch.no_grad():
        tensor = _moved(_evaluated(gm, value, made), device)
    taken = {name for name, _ in gm.named_buffers()}
    name = next(n for number in itertools.count() if (n := f"_host_constant{number}") not in taken)
    gm.register_buffer(name, tensor, persistent=False)
    with gm.graph.inserting_before(next(iter(gm.graph.nodes))):
        node = gm.graph.get_attr(name)
    node.meta["val"] = _moved(value.meta["val"], device)
    node.meta["stack_trace"] = value.meta.get("stack_trace")
    return node


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; a copy between devices leaves no conjugation to be done, which fake tensors forget."""
    return tensor.resolve_conj().resolve_neg().to(device)


def _evaluated(gm: GraphModule, value: Node, made: dict[Node, Any]) -> Tensor:
    """What a node computes from nodes that are decided."""
    needed = {value}
    for node in reversed(gm.graph.nodes):
        if node in needed and node not in made:
            needed.update(node.all_input_nodes)
    for node in gm.graph.nodes:
        if node not in needed or node in made:
            continue
        if node.op == "get_attr":
            made[node] = attribute(gm, str(node.target))
        elif not isinstance(node.meta["val"], Tensor):
            made[node] = int(node.meta["val"])
        else:
            target: Any = node.target
            args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
            made[node] = target(*args, **kwargs)
    tensor: Tensor = made[value]
    return tensor


def _is_given_away(node: Node) -> bool:
    """Whether the caller gets the memory of a node, or somebody writes it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        for user in one.users:
            if user.op == "output" or user.op == "call_module":
                return True
            used = [use for use in uses_of(user) if use.value is one]
            if any(use.writes for use in used):
                return True
            if user.target is operator.getitem or any(use.aliases for use in used):
                waiting.append(user)
    return False


def _spare(gm: GraphModule, kept: Collection[Node]) -> None:
    """Gives the caller copies of what is kept for other calls; views lie in what they are views of now."""
    copies = [_copied(gm, node) for node in kept if _is_given_away(node)]
    recompute_views(gm.graph, [*kept, *copies])


def _copied(gm: GraphModule, node: Node) -> Node:
    users = list(node.users)
    with gm.graph.inserting_after(node):
        copy = gm.graph.call_function(aten.clone.default, (node,))
    copy.meta["val"] = node.meta["val"].clone()
    copy.meta["stack_trace"] = node.meta.get("stack_trace")
    for user in users:
        user.replace_input_with(node, copy)
    return copy


def _erase_unused(gm: GraphModule, decided: Collection[Node]) -> None:
    for node in reversed(gm.graph.nodes):
        if not node.users and (node in decided or node.op == "get_attr"):
            gm.graph.erase_node(node)
