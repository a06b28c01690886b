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
    writer = _Writer(gm, runs)
    calls = gm.graph.find_nodes(op="call_module")
    dead = _last_uses(calls, gm.graph.output_node())
    lines = []
    for node in calls:
        writer.names[node] = f"v{len(writer.names)}"
        lines.append(f"{writer.names[node]} = {node.target}({', '.join(map(writer.text, node.args))})")
        if dropped := [writer.names[value] for value in dead.get(node, ())]:
            lines.append(f"del {', '.join(dropped)}")
    lines.append(f"return {writer.text(gm.graph.output_node().args[0])}")
    head = f"def call({', '.join(writer.parameters)}):"
    exec("\n    ".join([head, *lines]), writer.scope)
    call: Callable[..., Any] = writer.scope["call"]
    return call


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


class _Writer:
    """The names of values, and the objects that the function's globals hold."""

    def __init__(self, gm: GraphModule, runs: Mapping[str, Callable[..., Any]]) -> None:
        self.gm = gm
        self.scope: dict[str, Any] = dict(runs)
        self.names = {node: f"a{i}" for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
        self.parameters = list(self.names.values())

    def text(self, value: Any) -> str:
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, (list, tuple)):
            items = "".join(f"{self.text(one)}, " for one in value)
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        if isinstance(value, dict):
            return "{" + "".join(f"{key!r}: {self.text(one)}, " for key, one in value.items()) + "}"
        return self._constant(value)

    def _node(self, node: Node) -> str:
        if node.target is item:
            return f"{self.text(node.args[0])}[{node.args[1]}]"
        if node.op == "get_attr":
            return self._constant(attribute(self.gm, str(node.target)))
        return self.names[node]

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name
