"""Turns `auto_functionalized` wrappers into copies and the mutating operator they stand for.

    r = auto_functionalized_v2(op, x=base 0, _all_bases=[b]); y = r[0]; b2 = r[1]
        ->
    b2 = clone(b); y = op(b2)

Always done, whatever else is switched off: nothing behind this pipeline knows the wrapper. Every base is
copied here; the reinplacing passes then drop the copies that are not needed, by the same rule as any other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch._higher_order_ops import auto_functionalize as wrapper
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Invariant, Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_graph import same_extents, surely

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
        def decomposed(node: Node) -> bool | Refusal:
            op = node.args[0]
            if not isinstance(op, OpOverload):
                return Refusal.of(f"it wraps {op}, which is not an operator with a schema", node)
            _Decomposition(facts, node, op).run()
            return True

        wrappers = (node for node in gm.graph.nodes if node.target in (_FIRST, _SECOND))
        return tried(wrappers, decomposed, "wrapped operators called directly")


@dataclass(frozen=True)
class _Decomposition:
    facts: Facts
    node: Node
    op: OpOverload

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
        copies = [None if base is None else self._copy(base) for base in bases]
        views = wrapper.read_view_information_from_args(names, types, kwargs, bases)
        for name in names:
            view = views[name]
            if isinstance(view, list):
                kwargs[name] = [self._view(item, copies) for item in view]
            else:
                kwargs[name] = self._view(view, copies)
        return copies

    def _fresh_outputs(self, names: list[str], kwargs: dict[str, Any]) -> list[Any]:
        """`out=` operators: the written memory is described, not given."""
        for name in names:
            size, stride = kwargs.pop(f"_{name}_size"), kwargs.pop(f"_{name}_stride")
            options = {"dtype": kwargs.pop(f"_{name}_dtype"), "device": kwargs.pop(f"_{name}_device")}
            kwargs[name] = self._emit(aten.empty_strided.default, (size, stride), options)
        return []

    def _view(self, view: Any, bases: list[Any]) -> Any:
        if view is None:
            return None
        base = bases[view.base_index]
        if isinstance(view, wrapper.AsStridedViewInfo):
            return self._emit(aten.as_strided.default, (base, view.size, view.stride, view.storage_offset))
        if isinstance(view, wrapper.SliceViewInfo):
            return self._emit(aten.slice.Tensor, (base, view.dim, view.start, view.end))
        return base

    # -- a copy with the layout of the original, offset included: views are described by absolute offset

    def _copy(self, base: Node) -> Node:
        value = self.facts.value(base)
        with self.facts.values.active((value,)):
            plain = torch.clone(value)
        if same_extents(plain.stride(), value.stride()) and surely(value.storage_offset() == 0):
            return self._emit(aten.clone.default, (base,))
        length = self._storage_length(base, value)
        whole = self._emit(aten.as_strided.default, (base, [length], [1], 0))
        copy = self._emit(aten.clone.default, (whole,))
        size = [self._extent(aten.sym_size.int, base, i, n) for i, n in enumerate(value.size())]
        stride = [self._extent(aten.sym_stride.int, base, i, s) for i, s in enumerate(value.stride())]
        offset = self._extent(aten.sym_storage_offset.default, base, None, value.storage_offset())
        return self._emit(aten.as_strided.default, (copy, size, stride, offset))

    def _extent(self, target: Any, base: Node, dim: int | None, value: Any) -> Any:
        if isinstance(value, int):
            return value
        return self._emit(target, (base,) if dim is None else (base, dim))

    def _storage_length(self, base: Node, value: torch.Tensor) -> Any:
        length = self._extent(aten.sym_storage_offset.default, base, None, value.storage_offset())
        length = self._computed(operator.add, length, 1)
        for dim, (n, s) in enumerate(zip(value.size(), value.stride(), strict=True)):
            last = self._computed(operator.add, self._extent(aten.sym_size.int, base, dim, n), -1)
            step = self._extent(aten.sym_stride.int, base, dim, s)
            length = self._computed(operator.add, length, self._computed(operator.mul, last, step))
        return length

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
