"""Walks a graph from its inputs to its results and carries along where padding lies."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_fxpasses._refusal import Refusal
from air_fxpasses.padding._call import Call, LabelsOfNode, NodeFacts
from air_fxpasses.padding._labels import Labels, PaddedSize, Unproven, without
from air_fxpasses.padding._rules import SIZES, SIZES_OF, holds_positions, pointwise, rule_of
from air_fxpasses.padding._writes import depends_on_place, own_rows
from air_graph import draws_random_numbers, writes

aten = torch.ops.aten


@dataclass(frozen=True)
class Proof:
    """That padding of one size never reaches what is not padding, and where it lies in inputs and results.

    `inputs` has an entry per placeholder and `results` one per leaf of the output; an entry is None for what is no
    tensor.
    """

    size: PaddedSize
    inputs: tuple[Labels | None, ...]
    results: tuple[Labels | None, ...]
    needs_copies: bool = False
    """Whether it holds only for padding that is copies of the first rows of every input."""


def prove(gm: GraphModule, *symbols: Any) -> Proof | Refusal:
    """Whether the inputs of a functional ATen graph may be larger in one symbolic size than the caller's.

    Several symbols are one size: the caller vouches that they have the same value in every call.
    """
    size = PaddedSize(symbols)
    known = NodeFacts()
    for node in gm.graph.nodes:
        try:
            known.labels[node] = _labels_of(node, size, known)
        except Unproven as why:
            return Refusal.of(str(why), node)
    return Proof(
        size,
        tuple(_of_tensor(known, node) for node in gm.graph.find_nodes(op="placeholder")),
        tuple(_of_tensor(known, leaf) for leaf in tree_leaves(gm.graph.output_node().args[0])),
        known.needs_copies,
    )


def _of_tensor(known: NodeFacts, leaf: Any) -> Labels | None:
    is_tensor = isinstance(leaf, Node) and isinstance(leaf.meta.get("val"), Tensor)
    labels: Any = known.labels[leaf] if is_tensor else None
    return labels  # type: ignore[no-any-return]  # of a single tensor


def _labels_of(node: Node, padded: PaddedSize, known: NodeFacts) -> LabelsOfNode:
    value = node.meta.get("val")
    if node.op == "placeholder":
        known.copies.add(node)
        return _of_input(value, padded) if isinstance(value, Tensor) else None
    if node.op == "get_attr":
        return (None,) * value.dim() if isinstance(value, Tensor) else None
    if node.op == "output":
        return None
    if node.target is operator.getitem and not isinstance(value, Tensor):
        return None  # a size out of several
    if node.target is operator.getitem:
        several: Any = node.args[0]
        if several in known.copies:
            known.copies.add(node)
        source: Any = known.labels[several]
        return source[node.args[1]]  # type: ignore[no-any-return]  # one of its tensors
    if isinstance(node.target, OpOverload):
        return _of_call(Call(node, padded, known), value, known)
    if isinstance(value, (Tensor, tuple, list)):
        return _without_rule(node, padded, known)
    return None  # arithmetic on sizes


def _of_input(value: Tensor, padded: PaddedSize) -> Labels:
    labels = padded.at_the_end(value)
    strides = [padded.expression(stride) for stride in value.stride()]
    if not without(labels) and any(
        stride == 0 and padded.expression(size) != 1
        for stride, size in zip(strides, value.shape, strict=True)
    ):
        raise Unproven("the input repeats its memory (it was expanded): it has no room for padding")
    return labels


def _without_rule(node: Node, padded: PaddedSize, known: NodeFacts) -> LabelsOfNode:
    """A call without a rule is let through only where no padding reaches it."""
    reached = any(
        not _is_clean(known.labels[source]) or padded.is_in_value(source.meta.get("val"))
        for source in node.all_input_nodes
    )
    outputs = [leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, Tensor)]
    if reached or any(not without(padded.at_the_end(output)) for output in outputs):
        raise Unproven("no rule says what it does to padding")
    return _in_places(node.meta.get("val"), [(None,) * output.dim() for output in outputs])


def _in_places(value: Any, labels: Sequence[Labels]) -> LabelsOfNode:
    """The labels of the tensors of a value, each where its tensor is: other things may stand between them."""
    if isinstance(value, Tensor):
        return labels[0]
    rest = iter(labels)
    return tuple(next(rest) if isinstance(leaf, Tensor) else None for leaf in tree_leaves(value))


def _is_clean(labels: LabelsOfNode) -> bool:
    return labels is None or all(
        entry is None or (isinstance(entry, tuple) and without(entry)) for entry in labels
    )


def _of_call(call: Call, value: Any, known: NodeFacts) -> LabelsOfNode:
    outputs = call.outputs()
    sized = [not without(call.padded.at_the_end(output)) for output in outputs]
    reached = any(not without(labels) for _, labels in call.tensors())
    numbered = any(call.padded.is_in(number) for _, number in call.numbers())
    if not reached and not any(sized) and not numbered:
        labels: tuple[Labels, ...] = tuple((None,) * output.dim() for output in outputs)
    else:
        labels = _by_rule(call, reached)
        for one, output in zip(labels, outputs, strict=True):
            _check(one, output, call.padded)
        if _copies_rows(call, labels):
            known.copies.add(call.node)
    if isinstance(value, Tensor):
        if holds_positions(call, labels[0]):
            known.positions.add(call.node)
        return labels[0]
    return _in_places(value, labels) if isinstance(value, (tuple, list)) else None


def _copies_rows(call: Call, labels: tuple[Labels, ...]) -> bool:
    """Whether padding of the results is copies of their first rows."""
    padded = (node for node in call.node.all_input_nodes if call.is_padded(node))
    own = own_rows(call)
    return all(node in call.copies or node in own for node in padded) and not any(
        depends_on_place(call, one) for one in labels
    )


def _numbers(call: Call) -> Iterator[str]:
    """The arguments that hold the padded size as a number, where they are no sizes."""
    name = call.schema.name.partition("::")[2]
    allowed = SIZES | SIZES_OF.get(name, frozenset())
    return (
        argument
        for argument, number in call.numbers()
        if argument not in allowed and call.padded.is_in(number)
    )


def _by_rule(call: Call, reached: bool) -> tuple[Labels, ...]:
    target = call.node.target
    assert isinstance(target, OpOverload)
    namespace, _, name = call.schema.name.partition("::")
    if writes(call.node):
        return _written(call)
    if (
        not call.outputs()
        and not reached
        and isinstance(call.node.meta.get("val"), (int, SymInt, type(None)))
    ):
        return ()  # a size read off a tensor, or an assertion about sizes
    if name in ("sym_size", "sym_numel", "sym_stride"):
        return ()
    for argument in _numbers(call):
        raise Unproven(f"its {argument} is computed from the padded size")
    if draws_random_numbers(call.node):
        raise Unproven("it draws random numbers, more of them for a larger input")
    rule = rule_of(namespace, name)
    if rule is None and torch.Tag.pointwise in target.tags:
        rule = pointwise
    if rule is None:
        raise Unproven("no rule says what it does to padding")
    return rule(call)


def _written(call: Call) -> tuple[Labels, ...]:
    """The copies into inputs at the end of a functional graph, of values that padding has not reached."""
    if call.node.target is not aten.copy_.default:
        raise Unproven("it writes in place: only a functional graph can be judged")
    if not without(call.labels("self")):
        raise Unproven("the graph writes this input, whose padding would have to be taken off again")
    return (pointwise(call)[0],)


def _check(labels: Labels, output: Tensor, padded: PaddedSize) -> None:
    """Labels fit the sizes of the result: a rule that is wrong about an operator ends here."""
    factors = [padded.multiple(size) for size in output.shape]
    found = [None if label is None else label.outer * label.inner for label in labels]
    if factors != found:
        raise Unproven(f"its result has sizes {tuple(output.shape)}, for which its rule is not made")
