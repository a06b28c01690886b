"""Checks of numbers that only a run knows (`n = x.item(); torch._check(n < 4)`): torch makes those that can fail.

The engine has nothing that stops there. Such a check is left out of its graph, so the graph is cut and torch runs
it, as it does an `assert` of tensors. Most checks that a trace holds cannot fail, and are dropped:

    u0 >= 0                 u0 counts what nonzero finds
    u0 <= 12                u0 counts what nonzero finds in 12 elements
    u0 >= 0                 torch.zeros(u0) is in the graph: the engine makes none of a negative size
    u0 >= 0                 u0 is a size of an argument
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from air_graph import example_tensors

aten = torch.ops.aten
CHECK: Final = aten._assert_scalar.default
_READS: Final = aten._local_scalar_dense.default
_CANNOT_STOP: Final = "the engine cannot stop where a check of your program fails; torch can"
_STATED: Final = "a check of your program states its size or value, and the trace has taken that for true"
_MASKS: Final = frozenset({torch.bool, torch.uint8})
_FINDS: Final = frozenset(
    f"aten::{name}" for name in ("nonzero", "masked_select", "index", "_unique2", "unique_consecutive")
)
"""Operators that find elements: no more, along one dimension, than the mask has, or else the operand."""


def checks_that_can_fail(gm: fx.GraphModule) -> dict[fx.Node, str]:
    """The checks that torch has to make, each with the reason."""
    checks = gm.graph.find_nodes(op="call_function", target=CHECK)
    if not checks:
        return {}
    sizes, most = _sizes(gm), _most(gm)
    found: dict[fx.Node, str] = {}
    for check in checks:
        if _can_fail(check, sizes, most):
            found[check] = _CANNOT_STOP
            found.update((one, _STATED) for one in _of_data(check) if _is_stated(check.args[0]))
    return found


def _numbers_before(check: fx.Node) -> Iterator[fx.Node]:
    """What a check is computed from, up to tensors."""
    seen: set[fx.Node] = set()
    left = list(check.all_input_nodes)
    while left:
        one = left.pop()
        if one in seen or isinstance(one.meta.get("val"), torch.Tensor):
            continue
        seen.add(one)
        left.extend(one.all_input_nodes)
        yield one


def _of_data(check: fx.Node) -> list[fx.Node]:
    """What a check is computed from, beginning with what only a run knows; nothing where all is known."""
    numbers = [one for one in _numbers_before(check) if one.op == "call_function"]
    tensors = {each for one in numbers for each in one.all_input_nodes}
    unknown = {
        one for one in (*numbers, *tensors) if one.target is _READS or one.meta.get("unbacked_bindings")
    }
    return [*numbers, *unknown.difference(numbers)] if unknown else []


def _is_stated(condition: Any) -> bool:
    """Whether the trace takes it for true: it has one value for a number, that which the number is held against."""
    value = condition.meta.get("val") if isinstance(condition, fx.Node) else condition
    return value is True or (isinstance(value, torch.SymBool) and value.node.expr is sympy.true)


def _can_fail(check: fx.Node, sizes: frozenset[Any], most: dict[Any, Any]) -> bool:
    condition = check.args[0]
    if _is_stated(condition):
        return bool(_of_data(check))
    value = condition.meta.get("val") if isinstance(condition, fx.Node) else condition
    if not isinstance(value, torch.SymBool):
        return True
    expression = value.node.expr
    never_negative = sizes.union(most)
    stand_ins = {
        symbol: sympy.Dummy(symbol.name, integer=True, nonnegative=True)
        for symbol in expression.free_symbols
        if symbol in never_negative
    }
    holds = [expression, *(_below(expression, symbol, bound) for symbol, bound in most.items())]
    return all(one.xreplace(stand_ins) is not sympy.true for one in holds)


def _below(expression: Any, symbol: Any, bound: Any) -> Any:
    """`symbol <= n` as `bound <= n`; anything else as it is."""
    if isinstance(expression, sympy.Le) and expression.lhs == symbol:
        return sympy.Le(bound, expression.rhs)
    return expression


def _sizes(gm: fx.GraphModule) -> frozenset[Any]:
    """Symbols that are the size of an argument, or of a tensor which is made of numbers alone.

    Slices and splits take negative ones.
    """
    made = (value for node in gm.graph.nodes if isinstance(value := _made(node), torch.Tensor))
    exprs = (_expr(size) for value in made for size in value.shape)
    return frozenset(expr for expr in exprs if expr.is_Symbol)


def _made(node: fx.Node) -> Any:
    """What a call gives that reads no tensor; an argument is one that somebody made."""
    reads = any(isinstance(one.meta.get("val"), torch.Tensor) for one in node.all_input_nodes)
    return None if reads or node.op not in ("placeholder", "call_function") else node.meta.get("val")


def _expr(size: int | torch.SymInt) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _most(gm: fx.GraphModule) -> dict[Any, Any]:
    """How much an operator finds at most, by the symbol of what it finds."""
    found: dict[Any, Any] = {}
    for node in gm.graph.nodes:
        if not isinstance(node.target, OpOverload) or node.target._schema.name not in _FINDS:
            continue
        operands = [tensor for value in node.all_input_nodes for tensor in example_tensors(value)]
        masks = [one for one in operands if one.dtype in _MASKS]
        counts = {_expr(one.numel()) for one in masks or operands}
        if len(counts) == 1:
            (most,) = counts
            found.update(
                (symbol, most) for one in example_tensors(node) for symbol in free_unbacked_symbols(one)
            )
    return found
