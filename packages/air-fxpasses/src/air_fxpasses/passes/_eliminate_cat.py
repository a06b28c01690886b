"""Lets the operands of a concatenation write straight into its result.

    a = mm(x, w); b = add(x, y); c = cat([a, b])
        ->
    c = empty(...); mm(x, w, out=c[:n]); add(x, y, out=c[n:])

Done when every operand is computed by an operator with an `.out` form only for this concatenation, has the
result's type, and gets a contiguous piece of it. Sizes may be symbolic.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch._ops import OpOverload
from torch._prims_common import make_contiguous_strides_for
from torch.fx import GraphModule, Node

from air_fxpasses._extents import ExtentWriter
from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_graph import Extent, OutForm, draws_random_numbers, out_form_of, same_extents, surely

aten = torch.ops.aten


@dataclass(frozen=True)
class EliminateCat(Pass):
    """Replaces a concatenation by operators that write into slices of one buffer."""

    name: ClassVar[str] = "eliminate_cat"
    option: ClassVar[str] = "debug.aclgraph.remove_cat_ops"
    places_values: ClassVar[bool] = True

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        def eliminated(node: Node) -> bool | Refusal:
            plan = _plan(facts, node)
            return plan if isinstance(plan, Refusal) else _apply(facts, plan)

        found = gm.graph.find_nodes(op="call_function", target=aten.cat.default)
        return tried(found, eliminated, "concatenations written in place")


@dataclass(frozen=True)
class _Plan:
    cat: Node
    dim: int
    operands: tuple[tuple[Node, OutForm], ...]

    @property
    def first(self) -> Node:
        return min(node for node, _ in self.operands)


def _plan(facts: Facts, cat: Node) -> _Plan | Refusal:
    items = cat.args[0] if cat.args else cat.kwargs.get("tensors")
    dim = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    if not isinstance(items, (list, tuple)) or not isinstance(dim, int):
        return Refusal.of("its operands or its dimension are not known", cat)
    operands: list[tuple[Node, OutForm]] = []
    for item in items:
        found = _operand(facts, cat, item)
        if isinstance(found, Refusal):
            return found
        operands.append(found)
    if len({node for node, _ in operands}) != len(operands):
        return Refusal.of("an operand occurs twice", cat)
    plan = _Plan(cat, dim % max(1, facts.value(cat).dim()), tuple(operands))
    return _layout_refusal(facts, plan) or _order_refusal(facts, plan) or plan


def _operand(facts: Facts, cat: Node, item: Any) -> tuple[Node, OutForm] | Refusal:
    if not isinstance(item, Node) or item.op != "call_function" or not isinstance(item.target, OpOverload):
        return Refusal.of("an operand is not computed by an operator of this graph", cat, item)
    value, result = facts.tensor(item), facts.tensor(cat)
    twin = out_form_of(item.target, "cpu" if value is None else value.device.type)
    if twin is None or len(twin.names) != 1:
        return Refusal.of(f"{item.target} has no .out form that writes directly", cat, item)
    if list(item.users) != [cat]:
        other = next(u for u in item.users if u is not cat) if len(item.users) > 1 else item
        return Refusal.of(f"operand '{item.name}' is used elsewhere", cat, other)
    if draws_random_numbers(item):
        return Refusal.of(f"operand '{item.name}' draws random numbers", cat, item)
    if value is None or result is None:
        return Refusal.of(f"operand '{item.name}' is not a plain strided tensor", cat, item)
    if value.dtype != result.dtype:
        return Refusal.of(f"operand '{item.name}' is {value.dtype}, the result {result.dtype}", cat, item)
    if value.dim() != result.dim():
        return Refusal.of(f"operand '{item.name}' has another number of dimensions", cat, item)
    if value.device != result.device:
        return Refusal.of(
            f"operand '{item.name}' is on {value.device}, the result on {result.device}", cat, item
        )
    return item, twin


def _layout_refusal(facts: Facts, plan: _Plan) -> Refusal | None:
    result = facts.value(plan.cat)
    if not all(surely(n == 1) for n in result.size()[: plan.dim]):
        return Refusal.of(f"pieces along dimension {plan.dim} are not contiguous", plan.cat)
    for node in (plan.cat, *(n for n, _ in plan.operands)):
        value = facts.value(node)
        if not same_extents(value.stride(), make_contiguous_strides_for(value.shape)):
            return Refusal.of(f"'{node.name}' is not contiguous", plan.cat, node)
    writer = ExtentWriter(facts, plan.first)
    sizes = [*result.size(), *(n for node, _ in plan.operands for n in facts.value(node).size())]
    if not all(writer.can_write(n) for n in sizes):
        return Refusal.of("a size is known only after the graph has run", plan.cat)
    return None


def _order_refusal(facts: Facts, plan: _Plan) -> Refusal | None:
    nodes = sorted([plan.cat, *(node for node, _ in plan.operands)])
    for earlier, later in itertools.pairwise(nodes):
        if facts.ordering.concurrent(earlier, later):
            return Refusal.of("its operands are computed on several streams", plan.cat, earlier)
    return None


def _apply(facts: Facts, plan: _Plan) -> bool:
    result = facts.value(plan.cat)
    first = plan.first
    writer = ExtentWriter(facts, first)
    size = [writer.write(n) for n in result.size()]
    options = {"dtype": result.dtype, "device": result.device}
    buffer = facts.insert_before(first, aten.empty.memory_format, (size,), options)
    start: Extent = 0
    pieces: dict[Node, Node] = {}
    for node, _ in plan.operands:
        end = start + facts.value(node).size()[plan.dim]
        bounds = (writer.write(start), writer.write(end))
        pieces[node] = facts.insert_before(first, aten.slice.Tensor, (buffer, plan.dim, *bounds))
        start = end
    for node, twin in plan.operands:
        kwargs = {**node.kwargs, twin.name: pieces[node]}
        facts.insert_before(node, twin.out, node.args, kwargs)
    facts.replace(plan.cat, buffer)
    for node, _ in plan.operands:
        facts.erase(node)
    return True
