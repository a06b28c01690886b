"""Puts the body of each nested region in the place of its calls: what is inside is then part of the graph.

    y = invoke_subgraph(region, "region_0", x)[0]     ->     y = <the operators of region, on x>

`torch.compiler.nested_compile_region` traces a region once for all calls whose operands are alike. Passes look for
operators in a graph, and an engine converts them there: a call of a body was one that nobody knows.

Example values of a body are those of one call of it, or of none. They are computed again for each call: whether values
share memory is read from them.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only

from air_graph._examples import computed_again, computing_examples
from air_graph._places import with_bits_of
from air_graph._storage import leaf_storages
from air_graph._straight_calls import attribute

_CALL: Final = torch.ops.higher_order.invoke_subgraph


def inline_regions(gm: GraphModule) -> int:
    """Does so in a graph and the graphs that its operators are given; says how many calls there were."""
    count = _inline(gm)
    return count + sum(inline_regions(body) for body in gm.children() if isinstance(body, GraphModule))


def _inline(gm: GraphModule) -> int:
    count, names, copies = 0, dict[tuple[int, str], str](), set[Node]()
    replaced: list[Any] = []
    while calls := [node for node in _calls(gm) if _is_taken_apart(node)]:
        for call in calls:
            replaced += [user.meta.get("val") for user in call.users]
            copies.update(_replace(gm, call, names))
        count += len(calls)
    if count:
        _compute_examples(gm.graph, copies, set(leaf_storages(replaced)))
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


def _replace(gm: GraphModule, call: Node, names: dict[tuple[int, str], str]) -> list[Node]:
    """Writes the body where the call was; gives its nodes."""
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
    if not body.users:
        gm.graph.erase_node(body)
    return [copy for node, copy in new.items() if node.op == "call_function"]


def _moved(gm: GraphModule, inside: GraphModule, name: str, names: dict[tuple[int, str], str]) -> str:
    """The name in `gm` of what a body has under a name of its own."""
    key = id(inside), name
    if key not in names:
        taken = (f"{name.replace('.', '_')}_of_region_{number}" for number in range(len(names), 1 << 30))
        names[key] = next(each for each in taken if not hasattr(gm, each))
        setattr(gm, names[key], attribute(inside, name))
    return names[key]


def _compute_examples(graph: Graph, copies: set[Node], gone: set[int]) -> None:
    """Those of nodes that were copied, and of what was traced as lying in storages of results that are gone."""
    for node in graph.nodes:
        if node.op != "call_function" or "val" not in node.meta:
            continue
        if node in copies or not gone.isdisjoint(leaf_storages(node.meta["val"])):
            node.meta["val"] = _example(node)
            node.meta.pop("tensor_meta", None)


def _example(node: Node) -> Any:
    """What a node gives for the examples of its operands; where nothing can be computed, such a value elsewhere."""
    value = node.meta.get("val")
    operands = [operand.meta.get("val") for operand in node.all_input_nodes]
    mode = detect_fake_mode([operands, value])
    inference = any(
        isinstance(one, torch.Tensor) and one.is_inference() for one in tree_leaves([operands, value])
    )
    with (
        computing_examples(mode),
        enable_python_dispatcher(),
        torch.no_grad(),
        torch.inference_mode(inference),
    ):
        if (
            isinstance(node.target, HigherOrderOperator)
            or "unbacked_bindings" in node.meta  # each call of the operator gives sizes of its own
            or any("val" not in operand.meta for operand in node.all_input_nodes)
        ):
            return tree_map_only(torch.Tensor, _elsewhere, value)
        return computed_again(node)


def _elsewhere(value: torch.Tensor) -> torch.Tensor:
    if value.layout is not torch.strided:
        return value.clone()
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return with_bits_of(value, made)
