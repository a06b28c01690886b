"""Sizes known only at run time, as small expression trees over named symbols."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from air_geir.errors import ExpressionError

Dim: TypeAlias = "int | Expr"
"""One size: a number, or an expression over symbols."""


def _floor_quotient(numerator: int, denominator: int) -> int:
    return numerator // denominator


_EVALUATE: Mapping[str, Callable[..., int]] = {
    "add": lambda *args: sum(args),
    "sub": operator.sub,
    "mul": lambda *args: math.prod(args),
    "floordiv": _floor_quotient,
    "mod": operator.mod,
    "min": lambda *args: min(args),
    "max": lambda *args: max(args),
    "pow": operator.pow,
}
_COMMUTATIVE = frozenset({"add", "mul", "min", "max"})
_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**"}


class Expr:
    """An immutable expression: a symbol, or an operation over expressions and integers.

    Build expressions with `symbol` and Python's operators (`+ - * // % **`), `minimum` and `maximum`. Semantics are
    those of Python integers. Equal trees compare equal; constants fold; the arguments of commutative operations are
    flattened and sorted, so `a + b == b + a`.
    """

    __slots__ = ("_hash", "args", "op")

    op: str
    """`"symbol"`, or one of add, sub, mul, floordiv, mod, min, max, pow."""
    args: tuple[str] | tuple[Dim, ...]

    def __init__(self, op: str, args: tuple[str] | tuple[Dim, ...]) -> None:
        self.op = op
        self.args = args
        self._hash = hash((op, args))

    @property
    def name(self) -> str:
        """The name of a symbol."""
        head = self.args[0]
        if not isinstance(head, str):
            raise ExpressionError(f"{self} is not a symbol")
        return head

    @property
    def operands(self) -> tuple[Dim, ...]:
        """The arguments of an operation; none for a symbol."""
        return tuple(a for a in self.args if not isinstance(a, str))

    def symbols(self) -> frozenset[str]:
        """Names of all symbols in the tree."""
        return frozenset(e.name for e in self.walk() if e.op == "symbol")

    def walk(self) -> Iterator[Expr]:
        """Every sub-expression, operands before the operations that use them."""
        for arg in self.operands:
            if isinstance(arg, Expr):
                yield from arg.walk()
        yield self

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for these symbol values."""
        if self.op == "symbol":
            if self.name not in values:
                raise ExpressionError(f"symbol {self.name} has no value", advice=f"known: {sorted(values)}")
            return values[self.name]
        args = [a.evaluate(values) if isinstance(a, Expr) else a for a in self.operands]
        if self.op in ("floordiv", "mod") and args[1] == 0:
            raise ExpressionError(f"division by zero in {self}", advice=f"symbol values: {dict(values)}")
        return _EVALUATE[self.op](*args)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr):
            return NotImplemented
        return self._hash == other._hash and self.op == other.op and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __str__(self) -> str:
        """Python source of the expression; every operation is parenthesised."""
        if self.op == "symbol":
            return self.name
        texts = [str(a) if isinstance(a, Expr) or a >= 0 else f"({a})" for a in self.operands]
        if self.op in _INFIX:
            return "(" + f" {_INFIX[self.op]} ".join(texts) + ")"
        return f"{self.op}({', '.join(texts)})"

    def __add__(self, other: Dim) -> Dim:
        return apply("add", self, other)

    def __radd__(self, other: Dim) -> Dim:
        return apply("add", other, self)

    def __sub__(self, other: Dim) -> Dim:
        return apply("sub", self, other)

    def __rsub__(self, other: Dim) -> Dim:
        return apply("sub", other, self)

    def __mul__(self, other: Dim) -> Dim:
        return apply("mul", self, other)

    def __rmul__(self, other: Dim) -> Dim:
        return apply("mul", other, self)

    def __floordiv__(self, other: Dim) -> Dim:
        return apply("floordiv", self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return apply("floordiv", other, self)

    def __mod__(self, other: Dim) -> Dim:
        return apply("mod", self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return apply("mod", other, self)

    def __pow__(self, other: Dim) -> Dim:
        return apply("pow", self, other)

    def __rpow__(self, other: Dim) -> Dim:
        return apply("pow", other, self)

    def __neg__(self) -> Dim:
        return apply("mul", -1, self)


def symbol(name: str) -> Expr:
    """A size with a name, whose value comes at run time."""
    if not name.isidentifier():
        raise ExpressionError(
            f"{name!r} is not a name for a symbol", advice="use a Python identifier such as s0"
        )
    return Expr("symbol", (name,))


def minimum(*args: Dim) -> Dim:
    """The smallest of the sizes."""
    return apply("min", *args)


def maximum(*args: Dim) -> Dim:
    """The largest of the sizes."""
    return apply("max", *args)


def apply(op: str, *args: Dim) -> Dim:
    """The operation on these arguments, folded when they are numbers."""
    if op not in _EVALUATE:
        raise ExpressionError(f"{op!r} is not an operation on sizes", advice=f"one of {', '.join(_EVALUATE)}")
    if all(isinstance(a, int) for a in args):
        if op in ("floordiv", "mod") and args[1] == 0:
            raise ExpressionError(f"division by zero in {op}{args}", advice="divide by a size that is not 0")
        return _EVALUATE[op](*args)
    return _commutative(op, args) if op in _COMMUTATIVE else _binary(op, args)


def _commutative(op: str, args: tuple[Dim, ...]) -> Dim:
    """Flatten, fold the numbers into one, drop the neutral element, sort."""
    flat: list[Dim] = []
    for arg in args:
        flat.extend(arg.operands if isinstance(arg, Expr) and arg.op == op else (arg,))
    numbers = [a for a in flat if isinstance(a, int)]
    rest: list[Expr] = sorted((a for a in flat if isinstance(a, Expr)), key=str)
    if op in ("min", "max"):
        rest = list(dict.fromkeys(rest))
    constant = _EVALUATE[op](*numbers) if numbers else None
    if op == "mul" and constant == 0:
        return 0
    neutral = {"add": 0, "mul": 1}.get(op)
    if constant is None or constant == neutral:
        return rest[0] if len(rest) == 1 else Expr(op, tuple(rest))
    return Expr(op, (*rest, constant))


def _binary(op: str, args: tuple[Dim, ...]) -> Dim:
    left, right = args
    if op == "sub" and left == right:
        return 0
    if (op == "sub" and right == 0) or (op in ("floordiv", "pow") and right == 1):
        return left
    if op == "mod" and right == 1:
        return 0
    return Expr(op, (left, right))
