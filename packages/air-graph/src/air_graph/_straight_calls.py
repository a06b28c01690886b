"""Writes a graph of submodule calls as one function without a loop.

def call(a0, a1):
    v2 = piece_0(a0)
    v3 = eager_1(v2[0], a1)
    del v2
    return (v3[1], a0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from air_graph.writing import Writer


def item(values: Sequence[Any], index: int) -> Any:
    """The target of nodes that take one value of what a submodule gives."""
    return values[index]


def attribute(gm: GraphModule, path: str) -> Any:
    """What a `get_attr` node stands for."""
    value: Any = gm
    for name in path.split("."):
        value = getattr(value, name)
    return value


def straight_calls(gm: GraphModule, runs: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The calls of a graph in order, each value dropped after its last use; `runs` has what is called, by name."""
    writer, parameters = Writer(), []
    writer.globals.update(runs)
    calls, end = gm.graph.find_nodes(op="call_module"), gm.graph.output_node()
    dead = _last_uses(calls, end)
    for index, node in enumerate(gm.graph.nodes):
        if node.op == "placeholder":
            parameters.append(f"a{index}")
            writer.names[node] = parameters[-1]
        elif node.op == "get_attr":
            writer.names[node] = writer.bind(attribute(gm, str(node.target)), "c")
        elif node.target is item:
            writer.names[node] = f"{writer.text(node.args[0])}[{node.args[1]}]"
        elif node.op == "call_module":
            writer.names[node] = f"v{index}"
            writer.line(f"v{index} = {writer.call(str(node.target), node.args, {})}")
            if dropped := [writer.names[value] for value in dead.get(node, ())]:
                writer.line(f"del {', '.join(dropped)}")
    writer.line(f"return {writer.text(end.args[0])}")
    return writer.function("call", parameters)[0]


def _last_uses(calls: Sequence[Node], end: Node) -> dict[Node, list[Node]]:
    """The results of calls, by the call after which they are not needed."""
    place = {node: index for index, node in enumerate([*calls, end])}
    dead: dict[Node, list[Node]] = {}
    for call in calls:
        users = [user for one in call.users for user in one.users]
        last = max(users, key=place.__getitem__, default=call)
        if last is not end:
            dead.setdefault(last, []).append(call)
    return dead
