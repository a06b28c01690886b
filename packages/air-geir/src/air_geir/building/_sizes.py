"""Sizes that are known only at run time, as values of the graph.

Where the caller runs the graph (a compiled program) a size that its arguments decide is one more input, on the host,
computed by the code around the graph, without an operator. Where there is no such code (an export, a
branch of a conditional) or the size depends on data, it is computed in the graph by operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from air_geir.building._value import Value
from air_geir.errors import CannotConvert
from air_geir.ir import DataType, Dim, Expr, Graph, Node, Placement, Port, TensorDesc, as_dim
from air_geir.program import InputBinding, SymbolSource, SymInput, SymPackInput

if TYPE_CHECKING:
    from air_geir.building._context import Context

_OPERATORS: Mapping[str, str] = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "floordiv": "FloorDiv",
    "mod": "FloorMod",
    "min": "Minimum",
    "max": "Maximum",
    "pow": "Pow",
}


class Sizes:
    """Every size of one graph as a value, each made once."""

    def __init__(self, graph: Graph, *, hosted: bool) -> None:
        self.graph = graph
        self.hosted = hosted
        self.sources: dict[str, SymbolSource] = {}
        """Symbols the caller's arguments carry."""
        self.bindings: dict[Node, InputBinding] = {}
        """Inputs made here."""
        self._carriers: dict[str, tuple[Value, int | None]] = {}
        self._scalars: dict[Dim, Value] = {}
        self._vectors: dict[tuple[Dim, ...], Value] = {}

    def carry(self, name: str, value: Value, dim: int | None) -> None:
        """A value of the graph carries this symbol: as its number (dim None), or as one of its sizes."""
        self._carriers.setdefault(name, (value, dim))

    def hold(self, dim: Dim, value: Value) -> None:
        """An int64 scalar of the graph is this size, which may be an expression."""
        self._scalars.setdefault(dim, value)

    def carrier(self, name: str) -> tuple[Value, int | None] | None:
        """The value that carries a symbol, and which of its sizes it is (None: the number itself)."""
        return self._carriers.get(name)

    def scalar(self, ctx: Context, dim: Dim) -> Value:
        """The size as an int64 scalar."""
        found = self._scalars.get(dim)
        if found is None:
            found = self._scalars[dim] = self._make_scalar(ctx, dim)
        return found

    def vector(self, ctx: Context, dims: Sequence[Dim]) -> Value:
        """Sizes as an int64 vector."""
        key = tuple(dims)
        found = self._vectors.get(key)
        if found is None:
            found = self._vectors[key] = self._make_vector(ctx, key)
        return found

    def _make_scalar(self, ctx: Context, dim: Dim) -> Value:
        if isinstance(dim, int):
            return ctx.const(dim, torch.int64)
        if self._on_host(dim):
            return self._input(SymInput(dim), ())
        if dim.op != "symbol":
            return self._compute(ctx, dim)
        carrier = self._carriers.get(dim.name)
        if carrier is None and ctx.outer is not None:
            return ctx.take(ctx.outer.sizes.scalar(ctx.outer, dim))
        if carrier is None:
            raise CannotConvert(
                f"the size {dim.name} is carried by no input and computed by no operator of the graph",
                advice="mark the dimension static, or pass the tensor it belongs to",
            )
        value, axis = carrier
        if axis is None:
            return ctx.cast(value, torch.int64)
        sizes = ctx.emit(
            "Shape", value, dtype=torch.int64, shape=(value.rank,), attrs={"dtype": DataType.INT64}
        )
        return ctx.emit("Gather", sizes, ctx.const(axis, torch.int64), dtype=torch.int64, shape=())

    def _compute(self, ctx: Context, expr: Expr) -> Value:
        first, *rest = expr.operands
        result = self.scalar(ctx, first)
        for operand in rest:
            right = self.scalar(ctx, operand)
            result = ctx.emit(_OPERATORS[expr.op], result, right, dtype=torch.int64, shape=())
        return result

    def _make_vector(self, ctx: Context, dims: tuple[Dim, ...]) -> Value:
        numbers = [d for d in dims if isinstance(d, int)]
        if len(numbers) == len(dims):
            return ctx.const(numbers, torch.int64)
        if all(isinstance(d, int) or self._on_host(d) for d in dims):
            return self._input(SymPackInput(dims), (len(dims),))
        scalars = [self.scalar(ctx, d) for d in dims]
        return ctx.emit("Pack", scalars, axis=0, N=len(dims), dtype=torch.int64, shape=(len(dims),))

    def _on_host(self, dim: Expr) -> bool:
        return self.hosted and all(name in self.sources for name in dim.symbols())

    def _input(self, binding: InputBinding, shape: tuple[int, ...]) -> Value:
        desc = TensorDesc(DataType.INT64, shape, placement=Placement.HOST)
        port = add_input(self.graph, "sizes", desc)
        self.bindings[port.node] = binding
        return Value(port, torch.int64, shape)


def add_input(graph: Graph, name: str, desc: TensorDesc) -> Port:
    """An input made while the graph is half built: it stands before everything else."""
    first = next(iter(graph), None)
    with graph.origin_of(None):
        if first is None:
            return graph.data(name, desc)
        with graph.inserting_before(first):
            return graph.data(name, desc)


def dims_of(sizes: Sequence[int | torch.SymInt | Dim]) -> tuple[Dim, ...]:
    """Sizes of torch as sizes of the graph."""
    return tuple(s if isinstance(s, (int, Expr)) else as_dim(s) for s in sizes)
