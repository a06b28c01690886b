"""Which elements of a value are padding.

A dimension of size `outer * s * inner`, where `s` is the padded size, has a label: its index `i` is padding where
`(i // inner) % s` is not below the size the caller gave.  An element is padding when one of its indices is.

    [s, 4]  viewed as  [s * 4]      label (1, 4): the padding lies at the end, in blocks of 4
    [2, s]  viewed as  [2 * s]      label (2, 1): each of two blocks ends in padding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import SymBool, SymFloat, SymInt


class Unproven(Exception):
    """An operator lets padding reach a result, or no rule shows that it does not."""


@dataclass(frozen=True, slots=True)
class Label:
    """The place of the padding in a dimension of size `outer * s * inner`; both are expressions of other sizes."""

    outer: Any
    inner: Any

    @property
    def at_the_end(self) -> bool:
        """Whether all padding lies behind all of what the caller gave."""
        return bool(self.outer == 1)


Labels = tuple[Label | None, ...]
"""One entry per dimension of a tensor; None where a dimension has no padding."""


@dataclass(frozen=True)
class PaddedSize:
    """The size that is padded: one symbol, or several that always have the same value."""

    symbols: tuple[Any, ...]

    @property
    def symbol(self) -> Any:
        """The symbol that stands for all of them."""
        return self.symbols[0]

    def expression(self, size: Any) -> Any:
        """A size, or a number of an operator, as a sympy expression."""
        node = getattr(size, "node", None)
        if node is None:
            return sympy.sympify(size)
        try:
            return node.expr.xreplace(dict.fromkeys(self.symbols, self.symbol))
        except ZeroDivisionError:  # their difference is a divisor
            raise Unproven(f"the size {node.expr} is none where {self.symbols} are the same") from None

    def is_in(self, expression: Any) -> bool:
        """Whether a number depends on the padded size."""
        return bool(expression.has(self.symbol))

    def is_in_value(self, value: Any) -> bool:
        """Whether an example value is a number that depends on the padded size."""
        return isinstance(value, (SymInt, SymFloat, SymBool)) and self.is_in(self.expression(value))

    def sizes_of(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        """The size of a tensor as expressions."""
        return tuple(self.expression(size) for size in tensor.shape)

    def multiple(self, size: Any) -> Any | None:
        """`k` of a size `k * s`; None for a size without `s`."""
        found = self.expression(size)
        if not self.is_in(found):
            return None
        factor = sympy.cancel(found / self.symbol)
        if self.is_in(factor):
            raise Unproven(f"a dimension of size {found} is no multiple of the padded size {self.symbol}")
        return factor

    def at_the_end(self, tensor: torch.Tensor) -> Labels:
        """The labels of a tensor whose padding lies behind what the caller gave, in each dimension that has some."""
        factors = [self.multiple(size) for size in tensor.shape]
        return tuple(None if factor is None else Label(sympy.Integer(1), factor) for factor in factors)


def without(labels: Sequence[Label | None]) -> bool:
    """Whether none of these dimensions has padding."""
    return all(label is None for label in labels)


def joined(operands: Sequence[tuple[Sequence[Any], Labels]], rank: int) -> Labels:
    """The labels of a result that operands are broadcast to: those of one dimension must agree."""
    result: list[Label | None] = [None] * rank
    for dim in range(rank):
        found = {
            labels[dim - rank]
            for sizes, labels in operands
            if len(sizes) >= rank - dim and sizes[dim - rank] != 1
        }
        if len(found) > 1:
            raise Unproven(f"its operands are padded in different places of dimension {dim}")
        result[dim] = found.pop() if found else None
    return tuple(result)
