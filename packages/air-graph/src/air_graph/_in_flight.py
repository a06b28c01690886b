"""Functional collectives that are under way where a graph begins or ends.

    a = all_reduce(x); graph(a)          a = wait_tensor(a)     the input may still be written when the graph is called
    a = all_reduce(x)  return a          the caller waits       the graph ends before its collective has

Torch keeps the work of such a collective by the memory of its result, and `wait_tensor` looks it up there. What copies
inputs, or replays a graph, has other memory, so the one has to be waited for before, and the other inside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from air_graph._collectives import is_functional_collective, waits_for_collective
from air_graph._uses import uses_of


def awaited_by(wait: Node) -> Iterator[Node]:
    """What a wait is given, and each value that this one is a view of: the last one may be a collective."""
    node = wait.all_input_nodes[0]
    while True:
        yield node
        looked_at = [use.value for use in uses_of(node) if use.aliases]
        if node.target is operator.getitem:
            looked_at = node.all_input_nodes
        if len(looked_at) != 1:
            return
        node = looked_at[0]


def inputs_in_flight(gm: GraphModule) -> tuple[int, ...]:
    """The inputs that a graph waits for: collectives that were started outside of it may still write them."""
    inputs = gm.graph.find_nodes(op="placeholder")
    found = {node for wait in _waits(gm) for node in awaited_by(wait)}
    return tuple(place for place, node in enumerate(inputs) if node in found)


def waiting(run: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """`run` after waiting for the inputs at these places; `run` itself where there are none."""
    if not places:
        return run

    def waited(*args: Any) -> Any:
        wait_for(args, places)
        return run(*args)

    return waited


def wait_for(args: Sequence[Any], places: Sequence[int]) -> None:
    """Waits for the collectives that write inputs; nothing happens to one that none writes."""
    for place in places:
        torch.ops._c10d_functional.wait_tensor.default(args[place])


def finish_collectives(gm: GraphModule) -> bool:
    """Has a graph wait, at its end, for its collectives that it waits for nowhere; says whether there was one."""
    awaited = {node for wait in _waits(gm) for node in awaited_by(wait)}
    output = gm.graph.output_node()
    begun = [result for node in gm.graph.nodes if _begins(node) for result in _results(node)]
    left = [result for result in begun if result not in awaited]
    with gm.graph.inserting_before(output):
        for result in left:
            wait = gm.graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (result,))
            wait.meta = dict(result.meta)
            output.replace_input_with(result, wait)
    if left:
        gm.recompile()
    return bool(left)


def _waits(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if waits_for_collective(node.target)]


def _begins(node: Node) -> bool:
    return is_functional_collective(node.target) and not waits_for_collective(node.target)


def _results(node: Node) -> list[Node]:
    """The tensors that a collective gives, of which some operators have a list; those that nobody takes are no node."""
    if isinstance(node.meta.get("val"), (list, tuple)):
        return [user for user in node.users if user.target is operator.getitem]
    return [node]
