"""Turns an FX graph into one straight Python function.

    %add = add(x, 1)                      def graph(x):
    %mul = mul(add, y)         ->             v0 = f0(x, 1)
    return (mul,)                             v1 = f1(v0, y); del v0
                                              return (v1,)

There is no interpreter loop and no module call.  Every operator is bound once as a name of the function's
globals, and a value is dropped after its last use, so that a memory pool can hand its block out again inside
a capture.  Steps that belong to a node but are no operators (entering a stream, recording an event) are
bound callables as well: nothing is ever found by searching in printed text.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from air_graph import attribute
from air_graph.writing import Writer

if TYPE_CHECKING:
    from air_aclgraph.fused import Fused
    from air_graph.progress import Progress


@dataclass(frozen=True)
class Step:
    """A call to make beside a node; its arguments are values of the graph or plain objects."""

    call: Callable[..., object]
    args: tuple[object, ...] = ()


class Lowering:
    """What to do at each node besides calling its target, asked in the order of the nodes; here nothing."""

    def before(self, node: Node) -> Sequence[Step]:
        """Steps to take before the node."""
        return ()

    def runs(self, node: Node) -> bool:
        """Whether the node itself is called."""
        return True

    def after(self, node: Node) -> Sequence[Step]:
        """Steps to take after the node."""
        return ()


#: A callable that runs instead of a node's target.
Substitutes = Mapping[Node, Callable[..., Any]]


@dataclass
class Straight:
    """A compiled graph: call `function`; `node_at` says which node a failing line belongs to."""

    function: Callable[..., Any]
    filename: str
    source: str
    lines: dict[int, Node]
    keep: Mapping[str, object] = field(repr=False, default_factory=dict)
    progress: Progress | None = field(repr=False, default=None)
    fused: Fused | None = field(repr=False, default=None)
    """The regions among its steps that Inductor compiles."""

    def __del__(self) -> None:
        linecache.cache.pop(self.filename, None)

    def node_at(self, error: BaseException) -> Node | None:
        """The node that was running when `error`, or an error it was made of, was raised."""
        found = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.filename:
                found = self.lines.get(trace.tb_lineno, found)
            trace = trace.tb_next
        if found is None and error.__cause__ is not None:
            return self.node_at(error.__cause__)
        return found


def _callee(gm: GraphModule, node: Node) -> Callable[..., Any]:
    """The object a `call_function` or `call_module` node calls, past the Python layer of an overload."""
    if node.op == "call_module":
        return gm.get_submodule(str(node.target))
    target = node.target
    assert callable(target)
    if type(target) is torch._ops.OpOverload:
        operation: Callable[..., Any] = target._op
        return operation
    return target


def last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each node the values that nobody needs after it."""
    last: dict[Node, Node] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            last[used] = node
    dead: dict[Node, list[Node]] = {}
    for value, user in last.items():
        dead.setdefault(user, []).append(value)
    for node in nodes:
        if node not in last and node.op not in ("placeholder", "output"):
            dead.setdefault(node, []).append(node)
    return dead


def straighten(
    gm: GraphModule,
    *,
    lowering: Lowering | None = None,
    substitutes: Substitutes | None = None,
    name: str = "graph",
) -> Straight:
    """Compiles `gm` into one function of its placeholders, in the order of its nodes."""
    nodes = list(gm.graph.nodes)
    writer = Writer()
    lower = lowering or Lowering()
    replaced = substitutes or {}
    dead = last_uses(nodes)
    parameters: list[str] = []
    for index, node in enumerate(nodes):
        if node.op == "placeholder":
            writer.names[node] = f"a{index}"
            parameters.append(f"a{index}")
            continue
        _write_steps(writer, lower.before(node), node)
        if lower.runs(node) or node.op == "output":
            _write_node(writer, gm, node, f"v{index}", replaced.get(node))
        _write_steps(writer, lower.after(node), node)
        dropped = [
            writer.names[value]
            for value in dead.get(node, ())
            if value.op != "get_attr" and value in writer.names
        ]
        if dropped and node.op != "output":
            writer.line("del " + ", ".join(dropped), node)
    function, filename, source = writer.function(name, parameters)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return Straight(function, filename, source, writer.nodes, writer.globals)


def _write_steps(writer: Writer, steps: Sequence[Step], node: Node) -> None:
    for step in steps:
        writer.line(writer.call(writer.bind(step.call, "s"), step.args, {}), node)


def _write_node(
    writer: Writer, gm: GraphModule, node: Node, variable: str, substitute: Callable[..., Any] | None
) -> None:
    if node.op == "get_attr":
        writer.names[node] = writer.bind(attribute(gm, str(node.target)), "w")
        return
    if node.op == "output":
        writer.line(f"return {writer.text(node.args[0])}", node)
        return
    writer.names[node] = variable
    if node.op == "call_method":
        self_text = writer.text(node.args[0])
        text = writer.call(f"{self_text}.{node.target}", node.args[1:], node.kwargs)
    else:
        callee = substitute if substitute is not None else _callee(gm, node)
        text = writer.call(writer.bind(callee, "f"), node.args, node.kwargs)
    writer.line(f"{variable} = {text}", node)
