"""Puts the body of each nested region in the place of its calls: what is inside is then part of the graph.

    y = invoke_subgraph(region, "region_0", x)[0]     ->     y = <the operators of region, on x>

`torch.compiler.nested_compile_region` traces a region once for all calls whose operands are alike. Passes look for
operators in a graph, and an engine converts them there: a call of a body was one that nobody knows.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_graph._straight_calls import attribute

_CALL: Final = torch.ops.higher_order.invoke_subgraph


def inline_regions(gm: GraphModule) -> int:
    """Does so in a graph and the graphs that its operators are given; says how many calls there were."""
    count = _inline(gm)
    return count + sum(inline_regions(body) for body in gm.children() if isinstance(body, GraphModule))


def _inline(gm: GraphModule) -> int:
    count, names = 0, dict[tuple[int, str], str]()
    while calls := [node for node in _calls(gm) if _is_taken_apart(node)]:
        for call in calls:
            _replace(gm, call, names)
        count += len(calls)
    if count:
        gm.graph.eliminate_dead_code(is_impure_node=lambda node: node.op != "get_attr")
        gm.delete_all_unused_submodules()
        gm.recompile()
    return count


def _calls(gm: GraphModule) -> list[Node]:
    return gm.graph.find_nodes(op="call_function", target=_CALL)


def _is_taken_apart(call: Node) -> bool:
    """Whether every user takes one result, and the body takes the operands of the call."""
    if not all(user.target is operator.getitem for user in call.users):
        return False
    body, _, *operands = call.args
    if not isinstance(body, Node) or body.op != "get_attr" or call.kwargs:
        return False
    gm = call.graph.owning_module
    inside = None if gm is None else attribute(gm, str(body.target))
    return isinstance(inside, GraphModule) and len(inside.graph.find_nodes(op="placeholder")) == len(operands)


def _replace(gm: GraphModule, call: Node, names: dict[tuple[int, str], str]) -> None:
    body, _, *operands = call.args
    assert isinstance(body, Node)
    inside: GraphModule = attribute(gm, str(body.target))
    inputs = inside.graph.find_nodes(op="placeholder")
    new: dict[Node, Any] = dict(zip(inputs, operands, strict=True))
    with gm.graph.inserting_before(call):
        for node in inside.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            copy = new[node] = gm.graph.node_copy(node, new.__getitem__)
            if node.op == "get_attr":
                copy.target = _moved(gm, inside, str(node.target), names)
    given: Any = inside.graph.output_node().args[0]
    results: Any = map_arg(given, new.__getitem__)
    for user in list(call.users):
        number: Any = user.args[1]
        user.replace_all_uses_with(results[number])
        gm.graph.erase_node(user)
    gm.graph.erase_node(call)


def _moved(gm: GraphModule, inside: GraphModule, name: str, names: dict[tuple[int, str], str]) -> str:
    """The name in `gm` of what a body has under a name of its own."""
    key = id(inside), name
    if key not in names:
        taken = (f"{name.replace('.', '_')}_of_region_{number}" for number in range(len(names), 1 << 30))
        names[key] = next(each for each in taken if not hasattr(gm, each))
        setattr(gm, names[key], attribute(inside, name))
    return names[key]
