"""Reads each matrix of a batched product once where the batch repeats it, as attention with grouped heads does.

    wide = clone(expand(unsqueeze(k, 2), [b, n, g, d, l]))
    y = bmm(q, view(wide, [b * n * g, d, l]))
        ->
    y = view(bmm(view(q, [b * n, g * s, d]), view(k, [b * n, d, l])), [b * n * g, s, l])

The copy for every repetition goes, and so does reading it: with 32 heads over 8 of a KV cache that is a quarter of the
memory. The rows that meet the same matrix stand together, so they are rows of one product. `matmul` the same. Sizes may
be symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch.fx import GraphModule, Node

from air_fxpasses._extents import ExtentWriter, extents
from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_graph import Extent, same_extents, surely

aten = torch.ops.aten

_PRODUCTS: Final = (aten.bmm.default, aten.matmul.default)
_COPIES: Final = (aten.clone.default, aten.reshape.default)
"""Operators that copy, or may."""
_IN_ORDER: Final = (
    *_COPIES, aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.dims,
)  # fmt: skip
"""Operators whose elements come in the order of their operand's."""
_TURNS: Final = (aten.transpose.int, aten.permute.default)


@dataclass(frozen=True)
class ReadRepeatsOnce(Pass):
    """Multiplies the groups of rows that meet the same matrix by one copy of it."""

    name: ClassVar[str] = "read_repeats_once"
    option: ClassVar[str] = "air.read_repeats_once"
    rtol: ClassVar[float] = 1.6e-2

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        def read_once(product: Node) -> bool | Refusal | None:
            plan = _plan(facts, product)
            if plan is None or isinstance(plan, Refusal):
                return plan
            _apply(facts, plan)
            return True

        found = (
            node for target in _PRODUCTS for node in gm.graph.find_nodes(op="call_function", target=target)
        )
        return tried(found, read_once, "products read repeated matrices once")


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension of the memory that is repeated; `source` None is the repetition itself."""

    size: Extent
    source: int | None


Axes = tuple[_Axis, ...]
"""What one dimension of a later value consists of, slowest first."""


@dataclass(frozen=True)
class _Repeat:
    """How the second operand of a product comes from memory that is repeated."""

    base: Node
    dims: tuple[Axes, ...]
    path: tuple[Node, ...]
    """From the operator that repeats to the operand."""

    @property
    def reader(self) -> Node | None:
        """The first operator that may copy, and so read."""
        return next((node for node in self.path if node.target in _COPIES), None)


@dataclass(frozen=True)
class _Plan:
    product: Node
    left: Node
    repeat: _Repeat
    times: Extent
    order: tuple[int, ...]
    """The dimensions of the base in the order of the matrices."""

    @property
    def batch(self) -> tuple[Extent, ...]:
        """The sizes of the batch without the repetition."""
        return tuple(
            math.prod(axis.size for axis in axes if axis.source is not None) for axes in self.repeat.dims[:-2]
        )


def _plan(facts: Facts, product: Node) -> _Plan | Refusal | None:
    """How a product can do without the repetition; None where nothing is repeated."""
    left, right = product.args[:2]
    if not isinstance(left, Node) or not isinstance(right, Node):
        return None
    repeat = _traced(facts, right)
    if repeat is None:
        return None
    repetition = next(axis for axes in repeat.dims for axis in axes if axis.source is None)
    if len(repeat.dims) < 3 or repeat.dims[-3][-1:] != (repetition,):
        return Refusal.of("what is repeated is not the matrices of neighbours in its batch", product, right)
    sources = [axis.source for axes in repeat.dims for axis in axes if axis.source is not None]
    rank = facts.value(repeat.base).dim()
    order = (*(dim for dim in range(rank) if dim not in sources), *sources)
    plan = _Plan(product, left, repeat, repetition.size, order)
    return _use_refusal(facts, plan) or _shape_refusal(facts, plan) or _memory_refusal(facts, plan) or plan


def _traced(facts: Facts, operand: Node) -> _Repeat | None:
    """Follows the operand back to an `expand` that repeats one dimension."""
    path: list[Node] = []
    node = operand
    while node.op == "call_function":
        path.append(node)
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or facts.tensor(source) is None or facts.tensor(node) is None:
            return None
        if node.target is aten.expand.default and _repeats(_size(facts, node), _size(facts, source)):
            return _repeated(facts, source, tuple(reversed(path)))
        if node.target not in (*_IN_ORDER, *_TURNS, aten.expand.default):
            return None
        node = source
    return None


def _repeats(wide: tuple[Extent, ...], narrow: tuple[Extent, ...]) -> bool:
    """Whether an expansion does more than to put dimensions of size 1 in front."""
    added = len(wide) - len(narrow)
    return not all(surely(size == 1) for size in wide[:added]) or not same_extents(wide[added:], narrow)


def _size(facts: Facts, node: Node) -> tuple[Extent, ...]:
    return extents(facts.value(node))


def _repeated(facts: Facts, base: Node, path: tuple[Node, ...]) -> _Repeat | None:
    """The axes of the operand, by those of the first node of the path, which repeats `base`."""
    wide, narrow = _size(facts, path[0]), _size(facts, base)
    added = len(wide) - len(narrow)
    axes = [
        _Axis(size, dim - added if dim >= added and surely(size == narrow[dim - added]) else None)
        for dim, size in enumerate(wide)
    ]
    repeats = [dim - added for dim, axis in enumerate(axes) if axis.source is None]
    if len(repeats) != 1 or (repeats[0] >= 0 and not surely(narrow[repeats[0]] == 1)):
        return None
    dims = _regrouped([(axis,) for axis in axes if not surely(axis.size == 1)], wide)
    for node in path[1:]:
        if dims is None:
            return None
        dims = _turned(node, dims) if node.target in _TURNS else _regrouped(dims, _size(facts, node))
    return None if dims is None else _Repeat(base, dims, path)


def _turned(node: Node, dims: tuple[Axes, ...]) -> tuple[Axes, ...] | None:
    if node.target is aten.permute.default:
        order: Any = node.args[1]
        return tuple(dims[dim] for dim in order)
    first, second = (int(dim) % len(dims) for dim in node.args[1:3])  # type: ignore[arg-type]
    turned = list(dims)
    turned[first], turned[second] = dims[second], dims[first]
    return tuple(turned)


def _regrouped(dims: Sequence[Axes], size: Sequence[Extent]) -> tuple[Axes, ...] | None:
    """The same axes in dimensions of other sizes; None where a size takes a part of an axis."""
    axes = [axis for each in dims for axis in each]
    found: list[Axes] = []
    for extent in size:
        taken: list[_Axis] = []
        while not surely(math.prod(axis.size for axis in taken) == extent):
            if not axes:
                return None
            taken.append(axes.pop(0))
        found.append(tuple(taken))
    return None if axes else tuple(found)


def _use_refusal(facts: Facts, plan: _Plan) -> Refusal | None:
    """No, where the copy is made all the same, or the result is somebody's own memory."""
    for node in plan.repeat.path:
        if len(node.users) > 1:
            return Refusal.of(f"the repeated '{node.name}' is needed elsewhere", plan.product, node)
    for member in facts.members(facts.storage(plan.product)):
        if any(user.op == "output" for user in member.users):
            return Refusal.of("its result is returned", plan.product, member)
    return None


def _shape_refusal(facts: Facts, plan: _Plan) -> Refusal | None:
    left, right, result = (_size(facts, node) for node in (plan.left, plan.repeat.path[-1], plan.product))
    if len(left) != len(right) or not same_extents(left[:-2], right[:-2]):
        return Refusal.of("its batches are broadcast", plan.product)
    steps = facts.value(plan.product).stride()
    whole = [math.prod(result[dim + 1 :]) for dim in range(len(result))]
    if not all(surely(step == dense) for step, dense in zip(steps, whole, strict=True)):
        return Refusal.of("its result is not contiguous", plan.product)
    writer = ExtentWriter(facts, plan.product)
    if not all(writer.can_write(extent) for extent in (*left, *right, *result, *plan.batch, plan.times)):
        return Refusal.of("a size is known only after the graph has run", plan.product)
    return None


def _memory_refusal(facts: Facts, plan: _Plan) -> Refusal | None:
    """No, where the memory may have changed between the copy and the product, which reads it now."""
    reader = plan.repeat.reader or plan.product
    storage = facts.storage(plan.repeat.base)
    if storage is None or facts.pinned_by(storage) is not None:
        return Refusal.of("what happens to the repeated memory is not known", plan.product, plan.repeat.base)
    if not facts.on_one_stream(reader, plan.product):
        return Refusal.of("the copy is made on another stream", plan.product, reader)
    writer = facts.written_between(storage, reader, plan.product)
    if writer is not None:
        return Refusal.of(f"'{writer.name}' may write to what is repeated", plan.product, writer)
    return None


def _apply(facts: Facts, plan: _Plan) -> None:
    product, writer = plan.product, ExtentWriter(facts, plan.product)
    *_, rows, depth = _size(facts, plan.left)
    matrix = _size(facts, plan.repeat.path[-1])[-2:]

    def insert(target: Any, *args: Any, **kwargs: Any) -> Node:
        return facts.insert_before(product, target, args, kwargs)

    def shaped(node: Node, *size: Extent) -> Node:
        """A view of that size, of a copy where the layout allows none."""
        try:
            facts.value(node).view(size)
        except (RuntimeError, ValueError):
            node = insert(aten.clone.default, node, memory_format=torch.contiguous_format)
        return insert(aten.view.default, node, [writer.write(extent) for extent in size])

    turned = plan.repeat.base
    if list(plan.order) != sorted(plan.order):
        turned = insert(aten.permute.default, turned, list(plan.order))
    matrices = shaped(turned, *plan.batch, *matrix)
    together = shaped(plan.left, *plan.batch, plan.times * rows, depth)
    result = shaped(insert(product.target, together, matrices), *_size(facts, product))
    facts.replace(product, result)
