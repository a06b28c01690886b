"""Turns `auto_functionalized` wrappers into copies and the mutating operator they stand for.

    r = auto_functionalized_v2(op, x=base 0, _all_bases=[b]); y = r[0]; b2 = r[1]
        ->
    b2 = clone(b); y = op(b2)

Always done, whatever else is switched off: nothing behind this pipeline knows the wrapper. Every base is
copied here; the reinplacing passes then drop the copies that are not needed, by the same rule as any other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch._higher_order_ops import auto_functionalize as wrapper
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Invariant, Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_graph import same_extents

aten = torch.ops.aten

_FIRST: Final = torch.ops.higher_order.auto_functionalized
_SECOND: Final = torch.ops.higher_order.auto_functionalized_v2


def _find_wrapper(gm: GraphModule) -> str | None:
    for node in gm.graph.nodes:
        if node.target in (_FIRST, _SECOND) and isinstance(node.args[0], OpOverload):
            return f"node {node.name} wraps {node.args[0]}"
    return None


NO_AUTO_FUNCTIONALIZED: Final = Invariant("no auto_functionalized wrapper", _find_wrapper)


@dataclass(frozen=True)
class DecomposeAutoFunctionalized(Pass):
    """Replaces both wrappers of torch by clones and a call that mutates them."""

    name: ClassVar[str] = "decompose_auto_functionalized"
    ensures: ClassVar[tuple[Invariant, ...]] = (NO_AUTO_FUNCTIONALIZED,)

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        roots: dict[Node, Node] = {}

        def decomposed(node: Node) -> bool | Refusal:
            op = node.args[0]
            if not isinstance(op, OpOverload):
                return Refusal.of(f"it wraps {op}, which is not an operator with a schema", node)
            _Decomposition(facts, node, op, roots).run()
            return True

        wrappers = (node for node in gm.graph.nodes if node.target in (_FIRST, _SECOND))
        return tried(wrappers, decomposed, "wrapped operators called directly")


@dataclass(frozen=True)
class _Decomposition:
    facts: Facts
    node: Node
    op: OpOverload
    roots: dict[Node, Node]
    """Copies, and what they are copies of: the trace takes a copy to begin where that does, and it begins at 0."""

    def run(self) -> None:
        kwargs = dict(self.node.kwargs)
        first_is_old = self.node.target is _FIRST
        new_values = self._copied_arguments(kwargs) if first_is_old else self._copied_bases(kwargs)
        call = self._emit(self.op, (), kwargs)
        self._hand_out(call, new_values)
        self.facts.erase(self.node)

    def _emit(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Node:
        return self.facts.insert_before(self.node, target, args, kwargs)

    # -- the two encodings of "which memory is written"

    def _copied_arguments(self, kwargs: dict[str, Any]) -> list[Any]:
        names, _ = wrapper.get_mutable_args(self.op)
        for name in names:
            kwargs[name] = map_arg(kwargs[name], self._copy)
        return [kwargs[name] for name in names]

    def _copied_bases(self, kwargs: dict[str, Any]) -> list[Any]:
        names, types = wrapper.get_mutable_args(self.op)
        bases = list(kwargs.pop("_all_bases"))
        if not bases and any(f"_{name}_size" in kwargs for name in names):
            return self._fresh_outputs(names, kwargs)
        views = wrapper.read_view_information_from_args(names, types, kwargs, bases)
        before = {view.base_index for view in tree_leaves(views) if self._begins_before(view, bases)}
        copies = [
            None if base is None else self._copy_from_start(base) if at in before else self._copy(base)
            for at, base in enumerate(bases)
        ]
        for name in names:
            view = views[name]
            if isinstance(view, list):
                kwargs[name] = [self._view(item, bases, copies, before) for item in view]
            else:
                kwargs[name] = self._view(view, bases, copies, before)
        return copies

    def _fresh_outputs(self, names: list[str], kwargs: dict[str, Any]) -> list[Any]:
        """`out=` operators: the written memory is described, not given."""
        for name in names:
            size, stride = kwargs.pop(f"_{name}_size"), kwargs.pop(f"_{name}_stride")
            options = {"dtype": kwargs.pop(f"_{name}_dtype"), "device": kwargs.pop(f"_{name}_device")}
            kwargs[name] = self._emit(aten.empty_strided.default, (size, stride), options)
        return []

    def _view(self, view: Any, bases: list[Any], copies: list[Any], before: Collection[int]) -> Any:
        if view is None:
            return None
        copy = copies[view.base_index]
        if isinstance(view, wrapper.AsStridedViewInfo) and view.base_index in before:
            return self._emit(aten.as_strided.default, (copy, view.size, view.stride, view.storage_offset))
        if isinstance(view, wrapper.AsStridedViewInfo):
            return self._strided(view, bases[view.base_index], copy)
        if isinstance(view, wrapper.SliceViewInfo):
            return self._emit(aten.slice.Tensor, (copy, view.dim, view.start, view.end))
        return copy

    # -- an argument may begin elsewhere in its storage in each call, and nobody checks: all counts from where it begins

    def _strided(self, view: Any, base: Node, copy: Node) -> Node:
        """The view of a copy that the trace describes by its place in the storage of the base."""
        start = self._distance(view.storage_offset, base)
        source = copy
        if start != 0:
            flat = self._emit(aten.as_strided.default, (copy, [self._length(copy)], [1]))
            source = self._emit(aten.slice.Tensor, (flat, 0, start))
        return self._emit(aten.as_strided.default, (source, view.size, view.stride))

    def _begins_before(self, view: Any, bases: list[Any]) -> bool:
        """Whether a view surely begins before its base: one of the user's, which counts from the storage's start."""
        if not isinstance(view, wrapper.AsStridedViewInfo):
            return False
        base = bases[view.base_index]
        begin: Any = self.facts.value(self.roots.get(base, base)).storage_offset()
        offset: Any = view.storage_offset
        return isinstance(begin, int) and isinstance(offset, int) and offset < begin

    def _distance(self, offset: Any, base: Node) -> Any:
        """Elements from the beginning of a base to an element of its storage, which is a number of the trace or a node.

        A node that asks a value of the run where it lies is compared with where the base lies in the run.
        """
        root = self.roots.get(base, base)
        begin: Any = self.facts.value(root).storage_offset()
        if isinstance(begin, int) and isinstance(offset, int):
            return offset - begin
        asked = base if isinstance(offset, Node) and _asks_the_run(offset) else root
        return self._computed(operator.sub, offset, self._emit(aten.sym_storage_offset.default, (asked,)))

    def _copy(self, base: Node) -> Node:
        """A copy with the strides of the original, and what lies between its elements."""
        value = self.facts.value(base)
        with self.facts.values.active((value,)):
            plain = torch.clone(value)
        if same_extents(plain.stride(), value.stride()):
            copy = self._emit(aten.clone.default, (base,))
        else:
            whole = self._emit(aten.as_strided.default, (base, [self._length(base)], [1]))
            copy = self._in(self._emit(aten.clone.default, (whole,)), base, 0)
        self.roots[copy] = self.roots.get(base, base)
        return copy

    def _copy_from_start(self, base: Node) -> Node:
        """A copy of the storage up to the end of a value, with the value where it is in that."""
        value = self.facts.value(base)
        begin = self._extent(aten.sym_storage_offset.default, base, None, value.storage_offset())
        length = self._computed(operator.add, begin, self._length(base))
        whole = self._emit(aten.as_strided.default, (base, [length], [1], 0))
        return self._in(self._emit(aten.clone.default, (whole,)), base, begin)

    def _in(self, memory: Node, base: Node, begin: Any) -> Node:
        """A value with the sizes and strides of another, in flat memory."""
        value = self.facts.value(base)
        size = [self._extent(aten.sym_size.int, base, i, n) for i, n in enumerate(value.size())]
        stride = [self._extent(aten.sym_stride.int, base, i, s) for i, s in enumerate(value.stride())]
        return self._emit(aten.as_strided.default, (memory, size, stride, begin))

    def _length(self, base: Node) -> Any:
        """Elements from the first to the last of a value in memory."""
        value, length = self.facts.value(base), 1
        for dim, (n, s) in enumerate(zip(value.size(), value.stride(), strict=True)):
            last = self._computed(operator.add, self._extent(aten.sym_size.int, base, dim, n), -1)
            step = self._extent(aten.sym_stride.int, base, dim, s)
            length = self._computed(operator.add, length, self._computed(operator.mul, last, step))
        return length

    def _extent(self, target: Any, base: Node, dim: int | None, value: Any) -> Any:
        if isinstance(value, int):
            return value
        return self._emit(target, (base,) if dim is None else (base, dim))

    def _computed(self, combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """A sum or a product of sizes: a number where both are numbers, else a node."""
        is_known = isinstance(a, int) and isinstance(b, int)
        return combine(a, b) if is_known else self._emit(combine, (a, b))

    # -- results

    def _hand_out(self, call: Node, new_values: list[Any]) -> None:
        """Users of the wrapper's results get the results of the call, and the copies it wrote."""
        returned = max(1, len(self.op._schema.returns))
        several = len(self.op._schema.returns) > 1
        for user in list(self.node.users):
            index = user.args[1]
            if not isinstance(index, int):
                continue
            if index >= returned:
                self._redirect(user, new_values[index - returned])
            else:
                self._redirect(user, self._emit(operator.getitem, (call, index)) if several else call)

    def _redirect(self, user: Node, value: Any) -> None:
        if isinstance(value, Node):
            self.facts.replace(user, value)
            return
        for item in list(user.users):
            index = item.args[1]
            if isinstance(index, int):
                self.facts.replace(item, value[index])
        self.facts.erase(user)


def _asks_the_run(offset: Node) -> bool:
    """Whether a number is made of places in memory that are asked for when the graph runs."""
    if offset.target is aten.sym_storage_offset.default:
        return True
    return offset.op != "placeholder" and any(map(_asks_the_run, offset.all_input_nodes))
