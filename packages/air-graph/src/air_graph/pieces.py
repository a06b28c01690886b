"""Cuts a graph around the nodes that must run eagerly: pieces to compile, with eager parts between them.

    mm ─► nonzero ─► index ─► sum            piece_0 = mm        (the caller compiles it)
                                      ─►     eager_1 = nonzero, index
                                             piece_2 = sum

Nodes are put off as long as the order of values, of memory and of effects allows, so that there are few parts. A
value whose size is only known when the graph runs stays in eager parts; sizes of the arguments are known before. A
part that would only look at memory (views, sizes) is no piece of its own. What sizes alone decide can be asked to come
first, in a part that need not run again for the same sizes.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from air_graph._collectives import waits_for_collective
from air_graph._constants import Symbols
from air_graph._dependencies import dependencies
from air_graph._in_flight import awaited_by
from air_graph._saved import note_saved_results_of_part
from air_graph._static import is_backward_half, static_inputs
from air_graph._straight_calls import attribute, item, straight_calls
from air_graph._uses import uses_of

CompilePart = Callable[[GraphModule, list[Any], str], Callable[..., Any]]
"""Takes the graph of a part, its example inputs and its name; gives what runs it: arguments in, a tuple out."""


@dataclass(frozen=True)
class Part:
    """Nodes of a graph that run together."""

    name: str
    nodes: tuple[Node, ...]
    is_eager: bool
    by_size: bool = False
    """Whether sizes alone decide what it computes."""


@dataclass(frozen=True)
class Cut:
    """A graph in parts: `gm` calls them in order, each as a submodule that takes values and gives a tuple."""

    gm: GraphModule
    parts: tuple[Part, ...]

    @property
    def pieces(self) -> tuple[Part, ...]:
        """The parts that can be compiled."""
        return tuple(part for part in self.parts if not part.is_eager)


@dataclass(frozen=True)
class LeftOut:
    """A node that a compiler leaves out, and why: it runs eagerly, or the graph is refused."""

    node: str
    target: str
    reason: str
    source: str | None = None


def depends_on_data(node: Node, known: Collection[Any] = ()) -> bool:
    """Whether a size of the value, or a number it is given, is only known when the graph runs.

    `known` are symbols without a hint that the arguments of the graph have.
    """
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return any(is_unbacked(leaf, known) for leaf in tree_leaves(values))


def is_unbacked(leaf: Any, known: Collection[Any] = ()) -> bool:
    """Whether a number, or a size of a tensor, is only known when the graph runs."""
    if not isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return any(symbol not in known for symbol in free_unbacked_symbols(leaf))


def symbols_of_arguments(gm: GraphModule) -> frozenset[Any]:
    """The symbols without a hint that are sizes of the caller's arguments (`mark_unbacked`).

    What a backward half is given was computed by the forward half, and has other sizes in each call.
    """
    if is_backward_half(gm):
        return frozenset()
    given = tree_leaves([node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")])
    numbers = (leaf for leaf in given if isinstance(leaf, (torch.Tensor, torch.SymInt)))
    return frozenset(symbol for leaf in numbers for symbol in free_unbacked_symbols(leaf))


def cut(
    gm: GraphModule,
    eager: Collection[Node],
    by_size: Mapping[Node, Symbols] | None = None,
    first: Collection[Node] = (),
) -> Cut:
    """The graph in parts; those with a node of `eager`, or of what depends on data, run eagerly.

    Nodes of `by_size` run in the first part; a piece that uses one is given the symbols that decide it. Those of
    `first` run eagerly in the part after it.
    """
    decided = by_size or {}
    # several values do not cross a border as one: they stay with the node that makes them
    apart = {*eager, *(node.all_input_nodes[0] for node in eager if node.target is operator.getitem)}
    known = symbols_of_arguments(gm)
    for node in gm.graph.nodes:
        chosen = node.target is operator.getitem and node.args[0] in apart
        if chosen or (node.op not in ("placeholder", "output") and depends_on_data(node, known)):
            apart.add(node)
    for node in gm.graph.nodes:
        if _waits(node):
            apart.update(_until_apart(node, apart))
    sizes = _with_what_they_need(gm.graph, decided)
    parts = [Part("sizes", sizes, is_eager=True, by_size=True)] if sizes else []
    begun = tuple(node for node in _with_what_they_need(gm.graph, first) if node not in sizes)
    parts += [Part("numbers", begun, is_eager=True)] if begun else []
    parts.extend(_named(_scheduled(gm, apart, {*sizes, *begun})))
    return Cut(_assembled(gm, parts, decided), tuple(parts))


def _waits(node: Node) -> bool:
    """Whether a node waits for a collective that runs beside the program."""
    return waits_for_collective(node.target)


def _until_apart(wait: Node, apart: Collection[Node]) -> list[Node]:
    """A wait, and the views before it, where what it waits for runs apart: a compiled piece knows of no such work."""
    path = [wait]
    for node in awaited_by(wait):
        if node in apart:
            return path
        path.append(node)
    return []


def _with_what_they_need(graph: Graph, nodes: Collection[Node]) -> tuple[Node, ...]:
    """Nodes and all that they are computed from, but for the inputs of the graph."""
    needed = set(nodes)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(n for n in node.all_input_nodes if n.op != "placeholder")
    return tuple(node for node in graph.nodes if node in needed)


def _scheduled(
    gm: GraphModule, apart: Collection[Node], done: Collection[Node]
) -> list[tuple[bool, list[Node]]]:
    """Groups of nodes in an order that keeps all dependencies; a group takes all of its kind that are ready."""
    ran, inputs = set(done), gm.graph.find_nodes(op="placeholder")
    still = [inputs[place] for place in static_inputs(gm) if place < len(inputs)]
    needs = dependencies(gm.graph, still)
    before = {node: needed - ran for node, needed in needs.items() if node not in ran}
    order = TopologicalSorter(before)
    order.prepare()
    place = {node: index for index, node in enumerate(gm.graph.nodes)}
    ready: dict[bool, list[tuple[int, Node]]] = {False: [], True: []}
    groups: list[tuple[bool, list[Node]]] = []
    kind = False
    while order.is_active():
        for node in order.get_ready():
            heapq.heappush(ready[node in apart], (place[node], node))
        if not ready[kind]:
            kind = not kind
            groups.append((kind, []))
        if not groups:
            groups.append((kind, []))
        _, node = heapq.heappop(ready[kind])
        groups[-1][1].append(node)
        order.done(node)
    return groups


def _named(groups: Sequence[tuple[bool, list[Node]]]) -> Iterator[Part]:
    """The groups as parts: one without work joins the eager part beside it."""
    merged: list[tuple[bool, list[Node]]] = []
    for is_eager, nodes in groups:
        eager = is_eager or not any(map(_is_work, nodes))
        if merged and merged[-1][0] == eager:
            merged[-1][1].extend(nodes)
        else:
            merged.append((eager, list(nodes)))
    for index, (eager, nodes) in enumerate(merged):
        yield Part(f"{'eager' if eager else 'piece'}_{index}", tuple(nodes), eager)


def _is_work(node: Node) -> bool:
    """Whether the device has something to do for a node."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return isinstance(node.target, torch._ops.HigherOrderOperator)
    if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    uses = tuple(uses_of(node))
    return any(use.writes for use in uses) or not any(use.aliases and not use.reads for use in uses)


def _assembled(gm: GraphModule, parts: Sequence[Part], decided: Mapping[Node, Symbols]) -> GraphModule:
    """A graph that calls the parts."""
    graph = Graph()
    made: dict[Node, Node] = {}
    modules: dict[str, torch.nn.Module] = {}
    homes = {node: part for part in parts for node in part.nodes}
    symbols = _symbol_inputs(gm.graph)
    for node in gm.graph.find_nodes(op="placeholder"):
        made[node] = graph.node_copy(node)
    for part in parts:
        inputs, outputs = _border(part, homes, symbols, decided)
        modules[part.name] = _module_of(gm, part, inputs, outputs)
        call = graph.call_module(part.name, tuple(made[value] for value in inputs))
        for index, value in enumerate(outputs):
            made[value] = graph.call_function(item, (call, index))
            made[value].meta = dict(value.meta)
    output = gm.graph.output_node()
    graph.output(
        torch.fx.node.map_arg(output.args[0], lambda n: made[n] if n in made else _constant(n, graph))
    )
    return GraphModule({**dict(gm.named_children()), **_attributes(gm, graph), **modules}, graph)


def _constant(node: Node, graph: Graph) -> Node:
    """A constant that the graph returns."""
    return graph.create_node("get_attr", str(node.target))


def _attributes(gm: GraphModule, graph: Graph) -> dict[str, Any]:
    return {str(n.target): attribute(gm, str(n.target)) for n in graph.nodes if n.op == "get_attr"}


def _symbol_inputs(graph: Graph) -> dict[Any, Node]:
    """The placeholder that is each symbolic size."""
    found: dict[Any, Node] = {}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
            found.setdefault(value.node.expr, node)
    return found


def _border(
    part: Part, homes: dict[Node, Part], symbols: dict[Any, Node], decided: Mapping[Node, Symbols]
) -> tuple[list[Node], list[Node]]:
    """The values that a part is given, with the sizes that it speaks of, and those that others want of it."""
    inputs: dict[Node, None] = {}
    wanted: set[Any] = set()
    for node in part.nodes:
        for value in node.all_input_nodes:
            if value.op != "get_attr" and homes.get(value) is not part:
                inputs[value] = None
                wanted.update(decided.get(value, ()))
        for leaf in tree_leaves([node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]):
            if isinstance(leaf, (torch.Tensor, torch.SymInt)):
                wanted.update(free_symbols(leaf))
    sizes = [symbols[s] for s in sorted(wanted, key=str) if s in symbols and symbols[s] not in inputs]
    outputs = [n for n in part.nodes if n.op != "get_attr" and any(homes.get(u) is not part for u in n.users)]
    return [*sizes, *inputs], outputs


def _module_of(gm: GraphModule, part: Part, inputs: Sequence[Node], outputs: Sequence[Node]) -> GraphModule:
    graph = Graph()
    made: dict[Node, Node] = {}
    for value in inputs:
        made[value] = graph.placeholder(value.name)
        made[value].meta = dict(value.meta)

    def here(value: Node) -> Node:
        if value not in made:  # a constant
            made[value] = graph.create_node("get_attr", str(value.target))
            made[value].meta = dict(value.meta)
        return made[value]

    for node in part.nodes:
        if node.op != "get_attr":
            made[node] = graph.node_copy(node, here)
    graph.output(tuple(made[value] for value in outputs))
    part_of = GraphModule({**dict(gm.named_children()), **_attributes(gm, graph)}, graph)
    note_saved_results_of_part(gm, part_of, outputs)
    return part_of


def compile_parts(
    parted: Cut, compile_piece: CompilePart, compile_eager: CompilePart
) -> tuple[Callable[..., Any], dict[str, Callable[..., Any]]]:
    """Compiles every part; gives a straight function that calls them in order, and what it calls by name."""
    runs: dict[str, Callable[..., Any]] = {}
    for part in parted.parts:
        module = parted.gm.get_submodule(part.name)
        assert isinstance(module, GraphModule)
        examples = [n.meta.get("val") for n in module.graph.find_nodes(op="placeholder")]
        compile_part = compile_eager if part.is_eager else compile_piece
        runs[part.name] = compile_part(module, examples, part.name)
    return straight_calls(parted.gm, runs), runs
