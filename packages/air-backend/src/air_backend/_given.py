"""What kind of graph a caller made: one that can be compiled as it is, or one that has to be traced first.

A graph is compiled as it is where AOTAutograd would have nothing to do: ATen operators, of one trace, that write
nothing but final copies into arguments. Whether a function of Python (`operator.add`, `operator.getitem`) computes
sizes or tensors is known from the values of the trace alone: where they are not noted, the graph is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_arg
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from air_graph import duplicate, writes

#: Modules whose functions a traced graph calls on sizes: `operator.add`, `math.trunc`, `torch.sym_max`.
_OF_SIZES: Final = ("_operator", "math", "torch", "torch.fx.experimental.symbolic_shapes")
_NUMBERS: Final = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
_SEVERAL: Final = (tuple, list)


def is_as_aotautograd_makes_it(gm: GraphModule) -> bool:
    """False where AOTAutograd has something to do: torch functions, writes inside, values of several traces."""
    *nodes, end = gm.graph.nodes
    if not takes_arguments_as_placeholders(gm) or not all(map(_is_result, tree_leaves(_plain(end.args[0])))):
        return False
    while nodes and _updates_input(nodes[-1]):
        nodes.pop()
    return all(map(_is_functional, nodes)) and len(_modes(gm)) < 2


def takes_arguments_as_placeholders(gm: GraphModule) -> bool:
    """Whether a call gives a value for each placeholder; what `torch.export` makes takes structures instead."""
    return type(gm.graph._codegen) is CodeGen


def in_a_tuple(gm: GraphModule, compiled: Callable[[GraphModule], Callable[..., Any]]) -> Callable[..., Any]:
    """Compiles a copy of the graph whose result is a flat tuple, and gives the structure of the results back."""
    flat = duplicate(gm)
    end = flat.graph.output_node()
    leaves, spec = tree_flatten(_plain(end.args[0]))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Node)]
    end.args = (tuple(leaves[place] for place in places),)
    flat.recompile()
    run = compiled(flat)
    fixed = [None if isinstance(leaf, Node) else leaf for leaf in leaves]

    def structured(*inputs: Any) -> Any:
        results = list(fixed)
        for place, result in zip(places, run(*inputs), strict=True):
            results[place] = result
        return tree_unflatten(results, spec)

    return structured


def _plain(value: Any) -> Any:
    """A result as the code of a graph writes it: a graph itself holds dicts and lists of its own classes."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, _SEVERAL):
        each = [_plain(one) for one in value]
        return each if isinstance(value, list) else tuple(each)
    return value


def _is_result(leaf: Any) -> bool:
    """Whether a part of a result is a value of the graph, or one that no value of the graph is in."""
    found: list[Node] = []
    map_arg(leaf, found.append)
    return isinstance(leaf, Node) or not found


def _updates_input(node: Node) -> bool:
    """A final copy into an argument of the graph."""
    if node.target is not torch.ops.aten.copy_.default or not isinstance(node.args[0], Node):
        return False
    return node.args[0].op == "placeholder"


def _is_functional(node: Node) -> bool:
    if node.op == "placeholder":
        return "val" in node.meta  # a trace of ATen operators notes it; Dynamo and `symbolic_trace` do not
    if node.op != "call_function":
        return node.op == "get_attr"
    if isinstance(node.target, (OpOverload, HigherOrderOperator)):
        return not writes(node)
    return _picks_a_result(node) or _is_of_sizes(node)


def _picks_a_result(node: Node) -> bool:
    """One of several results of an operator; a part of a tensor is a view, and not meant."""
    return node.target is operator.getitem and _all_are(node.all_input_nodes[:1], _SEVERAL)


def _is_of_sizes(node: Node) -> bool:
    known = getattr(node.target, "__module__", None) in _OF_SIZES
    return known and _all_are(node.all_input_nodes, _NUMBERS)


def _all_are(nodes: Sequence[Node], kinds: tuple[type, ...]) -> bool:
    return all(isinstance(node.meta.get("val"), kinds) for node in nodes)


def _modes(gm: GraphModule) -> set[int]:
    """The fake modes of the example values, by identity; `make_fx` of real tensors gives each value its own."""
    values = tree_leaves([node.meta.get("val") for node in gm.graph.nodes])
    return {id(value.fake_mode) for value in values if isinstance(value, FakeTensor)}
