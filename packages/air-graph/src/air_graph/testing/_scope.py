"""The program while it is drawn: its names, what each holds in eager, and the statements taken so far."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from air_graph import storage_of
from air_graph.testing._case import Statement

T = TypeVar("T")
Holds = Callable[[Tensor], bool]
#: What a statement of a program may raise in eager; such a statement is not taken.
EAGER_REFUSES = (RuntimeError, LookupError, TypeError, ValueError, NameError, AttributeError)
MOST_ELEMENTS = 2048


def anything(value: Tensor) -> bool:
    return True


def is_float(value: Tensor) -> bool:
    return value.dtype.is_floating_point


def is_number(value: Tensor) -> bool:
    """Neither bool nor complex: values with an order."""
    return value.dtype != torch.bool and not value.dtype.is_complex


def is_integer(value: Tensor) -> bool:
    return is_number(value) and not is_float(value)


def is_complex(value: Tensor) -> bool:
    return value.dtype.is_complex


def both(*conditions: Holds) -> Holds:
    return lambda value: all(holds(value) for holds in conditions)


def at_least(dims: int) -> Holds:
    return lambda value: value.dim() >= dims and value.numel() > 0


def addresses(value: Tensor) -> Tensor:
    """The first byte of every element, counted from the start of its storage."""
    at = torch.full((), int(value.storage_offset()), dtype=torch.int64)
    for size, stride in zip(value.shape, value.stride(), strict=True):
        at = at.unsqueeze(-1) + torch.arange(size) * stride
    return at.flatten() * value.itemsize


def overlaps_itself(value: Tensor) -> bool:
    """Whether two elements lie in one place: eager leaves open what writing there gives."""
    if torch.ops.aten.is_non_overlapping_and_dense(value):
        return False
    at = addresses(value)
    return bool(at.unique().numel() < at.numel())


def overlaps_partly(target: Tensor, source: Tensor) -> bool:
    """Whether a write to one while the other is read depends on the order of the elements."""
    if storage_of(target) != storage_of(source):
        return False
    if not target.numel() or not source.numel():
        return False
    left, right = addresses(target), addresses(source)
    if target.itemsize == source.itemsize and torch.equal(left, right):
        return False
    return bool(
        torch.isin(
            (left.unsqueeze(1) + torch.arange(target.itemsize)).flatten(),
            (right.unsqueeze(1) + torch.arange(source.itemsize)).flatten(),
        ).any()
    )


@dataclass
class Scope:
    """Draws statements and executes each in eager as it is drawn; one that eager refuses is not taken."""

    chance: random.Random
    values: dict[str, Any]
    sizes_by_name: bool = False
    statements: list[Statement] = field(default_factory=list)
    inexact: set[str] = field(default_factory=set)
    made: int = 0

    # numbers

    def coin(self, probability: float = 0.5) -> bool:
        return self.chance.random() < probability

    def below(self, bound: int) -> int:
        return self.chance.randrange(max(1, bound))

    def one_of(self, choices: Sequence[T]) -> T:
        return self.chance.choice(choices)

    # tensors

    def tensors(self) -> list[str]:
        return [name for name, value in self.values.items() if isinstance(value, Tensor)]

    def tensor(self, holds: Holds = anything, exact: bool = False) -> str | None:
        """A tensor of the program with a property, later ones more often; `exact` leaves out rounded ones."""
        names = [n for n in self.tensors() if holds(self.values[n]) and not (exact and n in self.inexact)]
        if not names:
            return None
        place = max(self.chance.randrange(len(names)), self.chance.randrange(len(names)))
        return names[place] if self.coin(0.7) else self.one_of(names)

    def target(self, holds: Holds = anything) -> str | None:
        """A tensor that may be written in place."""
        name = self.tensor(holds)
        return None if name is None or overlaps_itself(self.values[name]) else name

    def fits(self, name: str, same_dtype: bool = False) -> str | None:
        """Another tensor that broadcasts to this one, or the same."""
        shape = self.values[name].shape
        dtype = self.values[name].dtype

        def broadcasts(value: Tensor) -> bool:
            if same_dtype and value.dtype != dtype:
                return False
            pairs = zip(reversed(value.shape), reversed(shape), strict=False)
            return value.dim() <= len(shape) and all(s in (1, w) for s, w in pairs)

        return self.tensor(broadcasts)

    def unread(self) -> list[str]:
        """Names that no later statement mentions."""
        names = []
        for at, statement in enumerate(self.statements):
            later = " ".join(s.text for s in self.statements[at + 1 :])
            made = sorted(
                _words(statement.text.split(" = ")[0])
            )  # a seed makes the same program in every process
            names += [n for n in made if isinstance(self.values.get(n), Tensor) and n not in _words(later)]
        return names

    def dim(self, name: str) -> int:
        dims = max(1, self.values[name].dim())
        return self.below(dims) - (dims if self.coin(0.3) else 0)

    def size(self, number: int) -> str:
        """A size as a literal, or as a size of one of the tensors."""
        if not self.sizes_by_name or self.coin(0.4):
            return str(number)
        places = [
            f"{name}.shape[{d}]"
            for name in self.tensors()
            for d, size in enumerate(self.values[name].shape)
            if size == number
        ]
        return self.one_of(places) if places else str(number)

    def shape(self, sizes: Iterable[int]) -> str:
        texts = [self.size(s) for s in sizes]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    # statements

    def assign(self, expression: str, tag: str, inexact: bool = False) -> bool:
        """`name = expression`."""
        return self._take(f"{self._fresh()} = {expression}", tag, inexact)

    def assign_all(self, count: int, expression: str, tag: str, inexact: bool = False) -> bool:
        """`one, two = expression`."""
        names = ", ".join(self._fresh() for _ in range(count)) + ("," if count == 1 else "")
        return self._take(f"{names} = {expression}", tag, inexact)

    def do(
        self,
        text: str,
        tag: str,
        writes: Sequence[str] = (),
        reads: Sequence[str | None] = (),
        inexact: bool = False,
    ) -> bool:
        """A statement for its effect; `writes` are expressions of what it writes, `reads` names it reads."""
        for target in writes:
            written = self.value_of(target)
            if not isinstance(written, Tensor) or overlaps_itself(written):
                return False
            for name in reads:
                if name is not None and overlaps_partly(written, self.values[name]):
                    return False
        return self._take(text, tag, inexact, writes)

    def value_of(self, expression: str) -> Any:
        try:
            return eval(expression, {"torch": torch}, dict(self.values))
        except EAGER_REFUSES:
            return None

    def _fresh(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def _take(self, text: str, tag: str, inexact: bool, writes: Sequence[str] = ()) -> bool:
        before = dict(self.values)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, {"torch": torch, "F": torch.nn.functional}, self.values)
        except EAGER_REFUSES:
            self.values = before
            return False
        fresh = [name for name in self.values if name not in before or self.values[name] is not before[name]]
        if any(_too_large(self.values[name]) for name in fresh):
            self.values = before
            return False
        self._spread(text, fresh, inexact, writes)
        self.statements.append(Statement(text, tag))
        return True

    def _spread(self, text: str, fresh: Sequence[str], inexact: bool, writes: Sequence[str]) -> None:
        """What is computed from rounded values is rounded, and so is everything in a storage that it goes to."""
        words = _words(text)
        if not inexact and not words & self.inexact:
            return
        touched = [*(self.values[n] for n in fresh), *(self.value_of(w) for w in writes)]
        storages = {storage_of(v) for v in touched if isinstance(v, Tensor)}
        for name in self.tensors():
            if storage_of(self.values[name]) in storages:
                self.inexact.add(name)


def _too_large(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() > MOST_ELEMENTS


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))
