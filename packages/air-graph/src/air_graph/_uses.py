"""What a node of a graph does to the memory of each of its arguments.

An operator's effects come from `effects_of`. A higher-order operator is known by what it is given: one that wraps an
operator does what that does; one with graphs as arguments writes what those graphs write; the functional ones only
read. Everything else is opaque.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_graph._effects import OPAQUE, PLAIN, ArgumentEffect, Effects, Key, effects_of

#: Higher-order operators that read what they are given and make new results.
_FUNCTIONAL: Final = frozenset(
    {"auto_functionalized", "auto_functionalized_v2", "triton_kernel_wrapper_functional"}
)

#: Higher-order operators that may write every tensor they are given.
_WRITING: Final = frozenset({"triton_kernel_wrapper_mutation"})

#: Higher-order operators that run the operator among their arguments, and nothing else.
_WRAPPING: Final = frozenset(
    {"with_effects", "run_and_save_rng_state", "run_with_rng_state", "graphsafe_run_with_rng_state"}
)

_HOLDS_OPERATOR: Final = _WRAPPING | _FUNCTIONAL


@dataclass(frozen=True, slots=True)
class Use:
    """One node among the arguments of another, and what happens to its memory."""

    value: Node
    key: Key
    """The position or the name it is passed at; items of a list share it."""
    reads: bool = True
    writes: bool = False
    aliases: frozenset[str] = frozenset()


def arguments(node: Node) -> Iterator[tuple[Key, Node]]:
    """Every node among the arguments, with the position or name it is passed at (lists flattened)."""
    for index, value in enumerate(node.args):
        for leaf in nodes_in(value):
            yield index, leaf
    for name, value in node.kwargs.items():
        for leaf in nodes_in(value):
            yield name, leaf


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes in an argument, in the order they stand in it."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from nodes_in(item)
    elif isinstance(value, slice):
        yield from nodes_in((value.start, value.stop, value.step))


def named_arguments(node: Node, op: OpOverload, *, defaults: bool = False) -> dict[str, Any]:
    """The arguments of a call by name, as they are given; those left out are in it with their `defaults`, or not."""
    arguments = op._schema.arguments
    left_out = {a.name: a.default_value for a in arguments} if defaults else {}
    positional = (a.name for a in arguments if not a.kwarg_only)
    return {**left_out, **dict(zip(positional, node.args, strict=False)), **node.kwargs}


def is_opaque(node: Node) -> bool:
    """Whether nothing is known about what `node` does to its arguments."""
    return effects_of_node(node).opaque


def effects_of_node(node: Node) -> Effects:
    """The effects of what a node calls; those of a higher-order operator hold for all its arguments alike."""
    if node.op in ("placeholder", "get_attr", "output") or node.target is operator.getitem:
        return PLAIN
    if node.op != "call_function":
        return OPAQUE
    if not isinstance(node.target, HigherOrderOperator):
        return effects_of(node.target)
    name = node.target.name()
    if name in _FUNCTIONAL or (name not in _WRITING and bodies_of(node)):
        return PLAIN
    wrapped = _wrapped(node)
    return OPAQUE if wrapped is None else wrapped[1]


def uses_of(node: Node) -> Iterator[Use]:
    """What `node` does to each node among its arguments; of an opaque one each may be read and written."""
    effects = effects_of_node(node)
    if isinstance(node.target, HigherOrderOperator):
        yield from _uses_of_higher_order(node, effects)
        return
    for key, value in arguments(node):
        yield _use(value, key, effects, effects.by_key.get(key))


def writes(node: Node) -> bool:
    """Whether `node` writes memory that it is given, also where its schema does not say so."""
    return any(use.writes for use in uses_of(node))


def _use(value: Node, key: Key, effects: Effects, effect: ArgumentEffect | None) -> Use:
    if effects.opaque:
        return Use(value, key, writes=True)
    if effect is None:
        return Use(value, key)
    return Use(value, key, effect.reads, effect.writes, effect.aliases)


def _uses_of_higher_order(node: Node, effects: Effects) -> Iterator[Use]:
    wrapped = _wrapped(node)
    if wrapped is not None:
        at, effects = wrapped
        for key, value in arguments(node):
            inner = key - at if isinstance(key, int) else key
            effect = effects.by_key.get(inner)
            yield _use(value, key, effects, effect)
        return
    written = _written_by_bodies(node)
    everything = effects.opaque or node.target.name() in _WRITING  # type: ignore[union-attr]  # asked by the caller
    for key, value in arguments(node):
        if not _is_body(value):
            yield Use(value, key, writes=everything or value in written)


def _wrapped(node: Node) -> tuple[int, Effects] | None:
    """Where the arguments of the wrapped operator begin, and its effects."""
    if not isinstance(node.target, HigherOrderOperator) or node.target.name() not in _WRAPPING:
        return None
    found = operator_of(node)
    return None if found is None else (found[1], effects_of(found[0]))


def operator_of(node: Node) -> tuple[OpOverload, int] | None:
    """The operator that a node runs, also inside one of a higher order; and where its arguments begin."""
    if isinstance(node.target, OpOverload):
        return node.target, 0
    if isinstance(node.target, HigherOrderOperator) and node.target.name() in _HOLDS_OPERATOR:
        for index, value in enumerate(node.args):
            if isinstance(value, OpOverload):
                return value, index + 1
    return None


def bodies_of(node: Node) -> tuple[GraphModule, ...]:
    """The graphs that a higher-order operator is given."""
    owner = node.graph.owning_module
    found = (getattr(owner, str(n.target), None) for n in node.all_input_nodes if n.op == "get_attr")
    return tuple(body for body in found if isinstance(body, GraphModule))


def nodes_of_bodies(node: Node) -> Iterator[Node]:
    """What a higher-order operator runs: the nodes of the graphs that it is given."""
    if isinstance(node.target, HigherOrderOperator):
        for body in bodies_of(node):
            yield from body.graph.nodes


def _written_by_bodies(node: Node) -> frozenset[Node]:
    """The operands that a body writes: its inputs are the last operands; all operands where that does not fit."""
    operands = operands_of(node)
    written: set[Node] = set()
    for body in bodies_of(node):
        inputs = body.graph.find_nodes(op="placeholder")
        theirs = written_inputs(body)
        if not theirs:
            continue
        if len(inputs) > len(operands):
            written.update(value for value in operands if isinstance(value, Node))
            continue
        last = operands[len(operands) - len(inputs) :]
        pairs = zip(last, inputs, strict=True)
        written.update(value for value, given in pairs if given in theirs and isinstance(value, Node))
    return frozenset(written)


def operands_of(node: Node) -> list[Any]:
    """All that a higher-order operator is given but its graphs, numbers too; the last are the inputs of the graphs."""
    leaves = tree_leaves((node.args, node.kwargs))
    return [leaf for leaf in leaves if not (isinstance(leaf, Node) and _is_body(leaf))]


def _is_body(value: Node) -> bool:
    owner = value.graph.owning_module
    return value.op == "get_attr" and isinstance(getattr(owner, str(value.target), None), GraphModule)


def written_inputs(gm: GraphModule) -> frozenset[Node]:
    """The placeholders whose memory some node of the graph writes, through any chain of views."""
    roots = input_roots(gm)
    calls = (
        n
        for n in gm.graph.nodes
        if n.op not in ("placeholder", "output") and _joined(n.all_input_nodes, roots)
    )
    return _joined((use.value for node in calls for use in uses_of(node) if use.writes), roots)


def input_roots(
    gm: GraphModule, also: Callable[[Node], Iterable[Node]] = lambda _: ()
) -> dict[Node, frozenset[Node]]:
    """For each node the placeholders in whose memory its value may live; `also` gives values to count in."""
    roots: dict[Node, frozenset[Node]] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            roots[node] = frozenset((node,))
        elif node.op != "output" and (inputs := _joined(node.all_input_nodes, roots)):
            shared = (*(use.value for use in uses_of(node) if use.aliases), *also(node))
            roots[node] = inputs if _may_be_any(node) else _joined(shared, roots)
    return roots


def _may_be_any(node: Node) -> bool:
    """Whether a result may live in the memory of any argument."""
    return node.target is operator.getitem or effects_of_node(node).opaque


def _joined(nodes: Iterable[Node], roots: dict[Node, frozenset[Node]]) -> frozenset[Node]:
    return frozenset().union(*(roots.get(node, frozenset()) for node in nodes))
