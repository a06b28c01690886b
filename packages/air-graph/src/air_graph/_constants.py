"""Which values of a graph are decided by its literals and its sizes alone: the same in every call of one shape.

mask = torch.triu(torch.full((n, n), -inf), 1)      decided by n
torch.tensor([0.5, 0.25])                           decided
torch.rand(n), lookup_of_your_own(n)                not: random, or an operator that may look elsewhere
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from air_graph._uses import is_opaque, writes

Symbols = frozenset[Any]
_SIZES: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LITERAL: Final = torch.ops.aten.lift_fresh_copy.default
_NAMESPACES: Final = frozenset({"aten", "prims"})
_UNDECIDED: Final = (
    torch.Tag.nondeterministic_seeded,
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
)


def decided_by_sizes(graph: Graph) -> dict[Node, Symbols]:
    """The tensors that literals and sizes decide, each with the symbols of those sizes."""
    found: dict[Node, Symbols] = {}
    sizes: dict[Node, Symbols] = {}
    for node in graph.nodes:
        if _is_size(node, sizes) and (free := _free(node.meta["val"])) is not None:
            sizes[node] = free
        elif _is_deterministic(node):
            symbols = [_symbols_of(operand, node, found, sizes) for operand in node.all_input_nodes]
            own = _free(node.meta.get("val"))
            if own is not None and None not in symbols:
                found[node] = own.union(*(s for s in symbols if s is not None))
    return found


def _is_size(node: Node, sizes: Collection[Node]) -> bool:
    """Whether a number is an input, a size of one, or computed from such: no tensor has to be computed for it."""
    if not isinstance(node.meta.get("val"), _SIZES):
        return False
    if node.target is torch.ops.aten.sym_size.int:
        return node.all_input_nodes[0].op == "placeholder"
    return all(operand in sizes for operand in node.all_input_nodes)


def _is_deterministic(node: Node) -> bool:
    op = node.target
    if node.op != "call_function" or not isinstance(op, OpOverload) or op.namespace not in _NAMESPACES:
        return False
    if not isinstance(node.meta.get("val"), Tensor) or any(tag in op.tags for tag in _UNDECIDED):
        return False
    return not is_opaque(node) and not writes(node)


def _symbols_of(
    operand: Node, user: Node, found: dict[Node, Symbols], sizes: dict[Node, Symbols]
) -> Symbols | None:
    """What decides an operand; None where it is something else."""
    if operand in found:
        return found[operand]
    if operand.op == "get_attr":  # a literal; other attributes are tensors that the program may write
        return frozenset() if user.target is _LITERAL else None
    return sizes.get(operand)


def _free(value: Any) -> Symbols | None:
    """The symbols of sizes; None where only a run tells them."""
    leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, (Tensor, *_SIZES))]
    if any(free_unbacked_symbols(leaf) for leaf in leaves):
        return None
    return frozenset(symbol for leaf in leaves for symbol in free_symbols(leaf))
