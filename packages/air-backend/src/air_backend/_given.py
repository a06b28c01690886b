"""Whether a graph that a caller made is as AOTAutograd makes one: functional, flat, of ATen operators, of one trace."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from air_graph import writes

#: Modules whose functions a traced graph calls on sizes: `operator.add`, `math.trunc`, `torch.sym_max`.
_OF_SIZES: Final = ("_operator", "math", "torch", "torch.fx.experimental.symbolic_shapes")


def is_as_aotautograd_makes_it(gm: GraphModule) -> bool:
    """False where AOTAutograd has something to do: torch functions, writes inside, values of several traces.

    Its graphs also return a flat tuple.
    """
    *nodes, end = gm.graph.nodes
    if not isinstance(end.args[0], (tuple, list)) or len(tree_leaves(end.args[0])) != len(end.args[0]):
        return False
    while nodes and _updates_input(nodes[-1]):
        nodes.pop()
    return all(map(_is_functional, nodes)) and len(_modes(gm)) < 2


def in_a_tuple(gm: GraphModule, compiled: Callable[[GraphModule], Callable[..., Any]]) -> Callable[..., Any]:
    """Compiles the graph with a flat tuple as result, which AOTAutograd asks for, and gives the structure back."""
    graph = Graph()
    leaves, spec = tree_flatten(_plain(graph.graph_copy(gm.graph, {})))
    graph.output(tuple(leaves))
    run = compiled(GraphModule(gm, graph))
    return lambda *inputs: tree_unflatten(list(run(*inputs)), spec)


def _plain(value: Any) -> Any:
    """A result as the code of a graph writes it: a graph itself holds dicts and lists of its own classes."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        each = [_plain(one) for one in value]
        return each if isinstance(value, list) else tuple(each)
    return value


def _updates_input(node: Node) -> bool:
    """A final copy into an argument of the graph."""
    if node.target is not torch.ops.aten.copy_.default or not isinstance(node.args[0], Node):
        return False
    return node.args[0].op == "placeholder"


def _is_functional(node: Node) -> bool:
    if node.op in ("placeholder", "get_attr"):
        return True
    if node.op != "call_function":
        return False
    if isinstance(node.target, (OpOverload, HigherOrderOperator)):
        return not writes(node)
    return node.target is operator.getitem or _is_of_sizes(node)


def _is_of_sizes(node: Node) -> bool:
    known = getattr(node.target, "__module__", None) in _OF_SIZES
    return known and not any(isinstance(each.meta.get("val"), torch.Tensor) for each in node.all_input_nodes)


def _modes(gm: GraphModule) -> set[int]:
    """The fake modes of the example values, by identity; `make_fx` of real tensors gives each value its own."""
    values = tree_leaves([node.meta.get("val") for node in gm.graph.nodes])
    return {id(value.fake_mode) for value in values if isinstance(value, FakeTensor)}
