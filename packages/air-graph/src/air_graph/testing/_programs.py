"""Random programs: a few statements over the parameters, and what is returned."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from air_graph.testing import _computes as computes
from air_graph.testing._case import Given, Statement
from air_graph.testing._flow import draw_flow
from air_graph.testing._rows import Row
from air_graph.testing._scope import Scope
from air_graph.testing._views import VIEWS
from air_graph.testing._waits import WAITS
from air_graph.testing._writes import FOREACH, OUTS, WRITES


def _of(rows: Sequence[Row]) -> Callable[[Scope], bool]:
    return lambda scope: scope.one_of(rows).draw(scope)


#: The families of statements and how often each is drawn.
FAMILIES: Final[Mapping[str, tuple[int, Callable[[Scope], bool]]]] = {
    "views": (30, _of(VIEWS)),
    "writes": (20, _of(WRITES)),
    "arithmetic": (14, _of(computes.ARITHMETIC)),
    "copies": (7, _of(computes.COPIES)),
    "reads": (6, _of(computes.READS)),
    "reductions": (6, _of(computes.REDUCTIONS)),
    "products": (4, _of(computes.PRODUCTS)),
    "casts": (4, _of(computes.CASTS)),
    "complex": (4, _of(computes.COMPLEX)),
    "constants": (3, _of(computes.CONSTANTS)),
    "host": (3, _of(computes.HOST)),
    "outs": (4, _of(OUTS)),
    "foreach": (4, _of(FOREACH)),
    "flow": (4, draw_flow),
    "waits": (3, _of(WAITS)),
}


@dataclass(frozen=True)
class DrawnFunction:
    """A function that eager runs."""

    body: tuple[Statement, ...]
    returns: Given
    is_exact: bool


def draw_program(
    chance: random.Random,
    values: Mapping[str, Any],
    sizes_by_name: bool = False,
    families: Sequence[str] = tuple(FAMILIES),
) -> DrawnFunction:
    """3 to 10 statements over `values`, which it may write to."""
    scope = Scope(chance, dict(values), sizes_by_name)
    weights = [FAMILIES[name][0] for name in families]
    length, attempts = 2 + chance.randrange(8), 0
    while len(scope.statements) < length and attempts < 10 * length:
        attempts += 1
        (name,) = chance.choices(families, weights)
        FAMILIES[name][1](scope)
    returns = draw_returns(scope, tuple(values))
    return DrawnFunction(tuple(scope.statements), returns, not scope.inexact)


_SUFFIXES: Final = (
    "[0]",
    "[..., 0]",
    ".t()",
    "[None]",
    "[1:]",
    ".reshape(-1)",
    ".detach()",
    ".transpose(0, -1)",
)


def draw_returns(scope: Scope, parameters: Sequence[str]) -> Given:
    """Mostly what was computed last; inputs, views, the same twice, numbers and None among it."""
    parts = [_part(scope, parameters, 0) for _ in range(1 + scope.below(5))]
    if len(parts) == 1 and scope.coin(0.7):
        return parts[0]
    return Given(kind="tuple", parts=tuple(parts))


def _part(scope: Scope, parameters: Sequence[str], depth: int) -> Given:
    chance = scope.chance.random()
    if chance < 0.06 and depth < 2:
        inner = tuple(_part(scope, parameters, depth + 1) for _ in range(1 + scope.below(2)))
        return Given(kind=scope.one_of(("tuple", "dict", "list")), parts=inner)
    if chance < 0.12:
        plain = ("None", "7", "2.5", "True", f"{parameters[0]}.dim()", *(p for p in parameters if p == "n"))
        return Given(scope.one_of(plain))
    if chance < 0.16 and isinstance(scope.values[parameters[0]], Tensor):
        return Given(f"{parameters[0]}.numel()")
    if chance < 0.26:
        return Given(scope.one_of(parameters))
    computed = [name for name in scope.tensors() if name not in parameters]
    if not computed:
        return Given(scope.one_of(parameters))
    unread = [name for name in scope.unread() if name not in parameters]
    name = scope.one_of(unread) if unread and scope.coin(0.7) else scope.one_of(computed)
    if chance < 0.42:
        text = name + scope.one_of(_SUFFIXES)
        if isinstance(scope.value_of(text), Tensor):
            return Given(text)
    return Given(name)
