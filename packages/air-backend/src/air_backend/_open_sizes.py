"""Sizes that a trace left open: what the symbols of an example are in a call, and how tensors have to lie then.

x[s0, s1], w[s1, s0]     # traced
x[4, 8], w[8, 4]         # fits: s0 is 4, s1 is 8
x[4, 8], w[8, 1]         # does not: s0 is 4, and 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import SymInt, Tensor

#: How many different sizes are remembered.
REMEMBERED: Final = 4096


class Extent(NamedTuple):
    """The sizes and strides of a tensor in a call; None where the arguments do not say."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]


class OpenSizes:
    """The symbols among the sizes of an example, each with the place in the arguments that says what it is."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self._examples = examples
        self._sources: dict[sympy.Symbol, tuple[int, int | None]] = {}
        for place, dim, size in _sizes(examples):
            if isinstance(size, SymInt) and isinstance(size.node.expr, sympy.Symbol):
                self._sources.setdefault(size.node.expr, (place, dim))
        self.tensors = tuple(
            place for place, one in enumerate(examples) if isinstance(one, Tensor) and is_open(one)
        )
        self.numbers = tuple(place for place, one in enumerate(examples) if isinstance(one, SymInt))
        self._extents: dict[tuple[int, ...], Mapping[int, Extent]] = {}

    def extents(self, args: Sequence[Any]) -> Mapping[int, Extent]:
        """How each tensor with open sizes has to lie in a call whose tensors have the ranks of the example."""
        values = self._values(args)
        known = self._extents.get(values)
        if known is None:
            if len(self._extents) >= REMEMBERED:
                self._extents.clear()
            known = self._extents[values] = self._computed(dict(zip(self._sources, values, strict=True)))
        return known

    def symbols(self, args: Sequence[Any], place: int) -> str:
        """What the symbols of an argument are in a call, as a text."""
        values = dict(zip(self._sources, self._values(args), strict=True))
        used = {symbol for size in self._examples[place].shape for symbol in _expression(size).free_symbols}
        return ", ".join(f"{symbol} is {values[symbol]}" for symbol in values if symbol in used)

    def _values(self, args: Sequence[Any]) -> tuple[int, ...]:
        places = self._sources.values()
        return tuple(args[place] if dim is None else args[place].shape[dim] for place, dim in places)

    def _computed(self, values: Mapping[sympy.Symbol, int]) -> dict[int, Extent]:
        whole = {symbol: sympy.Integer(value) for symbol, value in values.items()}
        return {
            place: Extent(
                tuple(_evaluated(size, whole) for size in self._examples[place].shape),
                tuple(_evaluated(stride, whole) for stride in _strides(self._examples[place])),
            )
            for place in self.tensors
        }


def is_open(value: Tensor) -> bool:
    """Whether a tensor has sizes that the trace left open."""
    return any(isinstance(size, SymInt) for size in value.shape)


def _sizes(examples: Sequence[Any]) -> Iterator[tuple[int, int | None, Any]]:
    for place, one in enumerate(examples):
        if isinstance(one, SymInt):
            yield place, None, one
        elif isinstance(one, Tensor):
            yield from ((place, dim, size) for dim, size in enumerate(one.shape))


def _strides(value: Tensor) -> Sequence[int | SymInt]:
    return value.stride() if value.layout is torch.strided else ()


def _expression(size: int | SymInt) -> Any:
    return size.node.expr if isinstance(size, SymInt) else sympy.Integer(size)


def _evaluated(size: int | SymInt, values: Mapping[sympy.Symbol, Any]) -> int | None:
    found = _expression(size).xreplace(values)
    return int(found) if found.is_number else None
