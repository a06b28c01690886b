"""`.out` twins: which operator computes the same value into memory it is given.

Derived from the schemas: an overload of the same operator with the same arguments and one more, written.
A twin whose kernel is only "compute, then copy" is left out: it would save nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from air_fxpasses.errors import BadRegistration
from air_fxpasses.tables._operators import (
    argument_problem,
    find_operator,
    name_of,
    qualified,
    written_arguments,
)

_TABLE = ".out twins"
_rows: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class OutTwin:
    """`out` computes what `functional` returns into its argument `name`."""

    functional: OpOverload
    out: OpOverload
    name: str


def register_out_twin(functional: str, out: str) -> None:
    """Declares that `out` (`"ns::op.overload"`) is `functional` with one more, written argument.

    Needed only where the two are not overloads of one operator. Contradicting the schemas is refused.
    """
    functional, out = qualified(functional, _TABLE), qualified(out, _TABLE)
    if functional in _rows:
        raise BadRegistration(_TABLE, functional, "it is registered already")
    first, second = find_operator(functional), find_operator(out)
    if first is not None and second is not None:
        _checked(first, second)
    _rows[functional] = out
    out_twin_of.cache_clear()


def registered_out_twins() -> tuple[tuple[str, str], ...]:
    """Every row, loaded or not."""
    return tuple(_rows.items())


def unregister_out_twin(functional: str) -> None:
    """Takes a row out again."""
    del _rows[qualified(functional, _TABLE)]
    out_twin_of.cache_clear()


@cache
def out_twin_of(target: Any) -> OutTwin | None:
    """The `.out` twin of `target`: registered, or derived from the schemas."""
    if not isinstance(target, OpOverload) or target._schema.is_mutable or len(target._schema.returns) != 1:
        return None
    row = _rows.get(name_of(target))
    if row is not None:
        out = find_operator(row)
        return None if out is None else _checked(target, out)
    for overload in target.overloadpacket.overloads():
        out = getattr(target.overloadpacket, overload)
        if _problem(target, out) is None and not _is_copy_afterwards(out):
            return OutTwin(target, out, written_arguments(out)[0])
    return None


def _is_copy_afterwards(out: OpOverload) -> bool:
    """torch generates the missing `.out` overloads as a functional call and a copy, for every backend."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(out.name(), "CompositeExplicitAutograd"))


def _checked(functional: OpOverload, out: OpOverload) -> OutTwin:
    problem = _problem(functional, out)
    if problem is not None:
        raise BadRegistration(_TABLE, str(functional), problem)
    return OutTwin(functional, out, written_arguments(out)[0])


def _problem(functional: OpOverload, out: OpOverload) -> str | None:
    written = written_arguments(out)
    if len(written) != 1:
        return f"{out} writes {written or 'nothing'}, not one argument"
    if functional._schema.is_mutable:
        return f"{functional} writes its arguments: {functional._schema}"
    last = out._schema.arguments[-1]
    if last.name != written[0] or not last.kwarg_only:
        return f"{out} takes '{written[0]}' otherwise than as its last keyword"
    return argument_problem(functional, out, but=(written[0],))
