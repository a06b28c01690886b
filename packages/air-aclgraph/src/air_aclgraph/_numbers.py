"""Numbers that decide no size reach a capture as tensors, so that it serves all of their values.

    position -> add(arange, position)     ->     position -> full([], position) -> add(arange, _)

A number among the inputs is part of the shape key: kernels are launched with it. A graph that does no more than add it
to tensors of integers, compare it with them and hand it back, as with the length of a KV cache, would be captured again
in every step. The number is put on the device before each replay instead. Integers of 64 bits alone: their values are
the same in both forms, those of other types may be rounded otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import SymInt, Tensor
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten

#: The second operand may be a tensor instead of a number.
_WITH_TENSORS: Final[dict[object, Callable[..., Any]]] = {
    op.Scalar: op.Tensor
    for op in (aten.add, aten.sub, aten.mul, aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
} | {op.Tensor: op.Tensor for op in (aten.add, aten.sub, aten.mul)}


def stage_numbers(gm: GraphModule, device: torch.device) -> tuple[Node, ...]:
    """Edits a graph so that such numbers are operands in memory; gives the nodes that the host computes before it."""
    numbers = _numbers(gm.graph)
    free = {symbol for number in numbers for symbol in free_symbols(number.meta["val"])}
    free -= symbols_of_sizes(gm.graph)
    for number in numbers:
        if not all(_may_be_staged(user, number, numbers) for user in number.users):
            free -= free_symbols(number.meta["val"])
    chosen = [number for number in numbers if free & free_symbols(number.meta["val"])]
    if not any(_takes(user, number) for number in chosen for user in number.users):
        return ()
    staged = [made for number in chosen for made in _staged(gm.graph, number, device)]
    gm.recompile()
    return (*(number for number in chosen if number.op == "call_function"), *staged)


def _numbers(graph: Graph) -> list[Node]:
    """Integers among the inputs, and those that are computed from such and from the sizes of inputs alone."""
    found: list[Node] = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, SymInt) or free_unbacked_symbols(value):
            continue
        given = node.target is aten.sym_size.int and node.all_input_nodes[0].op == "placeholder"
        if node.op == "placeholder" or given or all(operand in found for operand in node.all_input_nodes):
            found.append(node)
    return found


def symbols_of_sizes(graph: Graph) -> set[Any]:
    """The symbols of all sizes, strides and offsets."""
    values = (leaf for node in graph.nodes for leaf in tree_leaves(node.meta.get("val")))
    return {symbol for value in values if isinstance(value, Tensor) for symbol in free_symbols(value)}


def _may_be_staged(user: Node, number: Node, numbers: Sequence[Node]) -> bool:
    return user in numbers or user.op == "output" or _takes(user, number)


def _takes(user: Node, number: Node) -> bool:
    """Whether an operator takes the number as its second operand, for integers of the same width."""
    if user.target not in _WITH_TENSORS or len(user.args) != 2 or user.kwargs or user.args[0] is number:
        return False
    first = user.args[0].meta.get("val") if isinstance(user.args[0], Node) else None
    return isinstance(first, Tensor) and first.dtype == torch.int64


def _staged(graph: Graph, number: Node, device: torch.device) -> Iterator[Node]:
    """The number as a tensor, where operators take it."""
    users = [user for user in number.users if _takes(user, number)]
    if not users:
        return
    after = number
    while after.op == "placeholder" and after.next.op == "placeholder":
        after = after.next
    with graph.inserting_after(after):
        options: dict[str, Any] = {"dtype": torch.int64, "device": device}
        tensor = graph.call_function(aten.full.default, ([], number), options)
    given = [operand.meta["val"] for user in users for operand in user.all_input_nodes]
    with detect_fake_mode(given) or contextlib.nullcontext():
        tensor.meta["val"] = torch.empty((), dtype=torch.int64, device=device)
    tensor.meta["stack_trace"] = users[0].meta.get("stack_trace")
    for user in users:
        user.target = _WITH_TENSORS[user.target]
        user.args = (user.args[0], tensor)
    yield tensor
