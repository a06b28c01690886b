"""Writes sizes into a graph: an integer, or nodes that compute a symbolic size from the inputs.

A symbolic size has to be an argument that some node computes. It is found among the values of size
placeholders, taken from an input tensor by `sym_size`, or put together by additions and multiplications of
those; nothing is printed, parsed or evaluated as text, and nothing is remembered between graphs.
"""

from __future__ import annotations

import operator
from typing import Any

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch.fx import Node

from air_fxpasses._facts import Facts
from air_graph import Extent

aten = torch.ops.aten

Written = int | Node


def extents(tensor: torch.Tensor) -> tuple[Extent, ...]:
    """The size of a tensor, whose entries torch annotates as integers although they may be symbols."""
    return tuple(tensor.size())


def expression(extent: torch.SymInt) -> Any:
    """The sympy expression behind a symbolic size."""
    return extent.node.expr


class ExtentWriter:
    """Gives each size as an argument that is available in front of `anchor`."""

    def __init__(self, facts: Facts, anchor: Node) -> None:
        self._facts = facts
        self._anchor = anchor
        self._known: dict[Any, Node] = {}
        self._sources = self._find_sources()

    def _find_sources(self) -> dict[Any, tuple[Node, int | None]]:
        sources: dict[Any, tuple[Node, int | None]] = {}
        for node in self._facts.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                sources.setdefault(expression(value), (node, None))
        for node in self._facts.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                for dim, extent in enumerate(extents(value)):
                    if not isinstance(extent, int):
                        sources.setdefault(expression(extent), (node, dim))
        return sources

    def can_write(self, extent: Extent) -> bool:
        """Whether every symbol in the size comes from an input."""
        return isinstance(extent, int) or self._is_known(expression(extent))

    def _is_known(self, expr: Any) -> bool:
        if expr.is_Integer or expr in self._sources:
            return True
        return isinstance(expr, (sympy.Add, sympy.Mul)) and all(self._is_known(a) for a in expr.args)

    def write(self, extent: Extent) -> Written:
        """The argument for a size; nodes are inserted as needed."""
        return extent if isinstance(extent, int) else self._write(expression(extent))

    def _write(self, expr: Any) -> Written:
        if expr.is_Integer:
            return int(expr)
        if expr not in self._known:
            self._known[expr] = self._computed(expr)
        return self._known[expr]

    def _computed(self, expr: Any) -> Node:
        if expr in self._sources:
            node, dim = self._sources[expr]
            return node if dim is None else self._emit(aten.sym_size.int, node, dim)
        combine = operator.add if isinstance(expr, sympy.Add) else operator.mul
        first, *rest = (self._write(a) for a in expr.args)
        total = first
        for item in rest:
            total = self._emit(combine, total, item)
        if isinstance(total, int):
            raise ValueError(f"{expr} is not symbolic")
        return total

    def _emit(self, target: Any, *args: Any) -> Node:
        return self._facts.insert_before(self._anchor, target, args)
