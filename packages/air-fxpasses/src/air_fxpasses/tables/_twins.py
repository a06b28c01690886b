"""In-place twins: which operator does the same work into an argument's memory.

Where torch has `op` and `op_` with the same arguments, the pair is derived from the schemas. Operators that
return several values, or whose in-place form has another name, are rows: for each result of the functional
operator a row says which argument of the in-place operator ends up holding it, or which of its results it
is. A row names its operators by qualified name and takes effect once both are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from air_fxpasses.errors import BadRegistration
from air_fxpasses.npu_cards import operators
from air_graph import (
    argument_problem,
    find_operator,
    name_of,
    qualified,
    written_arguments,
)

_TABLE = "in-place twins"


@dataclass(frozen=True, slots=True)
class Twin:
    """`inplace` writes into the named arguments what `functional` returns."""

    functional: OpOverload
    inplace: OpOverload
    results: tuple[str | int, ...]
    """Per result of `functional`: the argument that holds it, or its index among `inplace`'s results."""

    @property
    def mutated(self) -> tuple[str, ...]:
        """The names of the arguments that are written."""
        return tuple(r for r in self.results if isinstance(r, str))

    @property
    def returns_self(self) -> bool:
        """Whether both give one tensor, and the in-place form hands back the argument it wrote."""
        returns = self.inplace._schema.returns
        return len(self.results) == 1 and len(returns) == 1 and returns[0].alias_info is not None

    @property
    def returns_nothing(self) -> bool:
        """Whether the functional form gives one tensor and the in-place form, which wrote it, none."""
        return (
            len(self.mutated) == len(self.results) == 1
            and not self.inplace._schema.returns
            and not self.is_list
        )

    @property
    def is_list(self) -> bool:
        """Whether the written argument is a list of tensors."""
        return any(
            a.name in self.mutated and not isinstance(a.type, (torch.TensorType, torch.OptionalType))
            for a in self.inplace._schema.arguments
        )


#: functional form -> in-place form, and where each result of the functional form is found
_rows: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "aten::normal_functional.default": ("aten::normal_.default", ("self",)),
    **{
        f"npu::{card.functional}.default": (
            f"npu::{card.overload}",
            (*range(len(card.parsed.returns)), *card.mutated),
        )
        for card in operators()
        if (card.functional or "").endswith("_functional")
    },
}


def register_inplace_twin(functional: str, inplace: str, results: tuple[str | int, ...]) -> None:
    """Declares that `inplace` (`"ns::op.overload"`) is the mutating form of `functional`.

    `results` has one entry per result of `functional`: the name of the argument that `inplace` leaves it
    in, or the index of the result of `inplace` it equals. A row that contradicts the schemas is refused,
    at once when both operators are loaded and otherwise when they are first looked up.
    """
    functional, inplace = qualified(functional, _TABLE), qualified(inplace, _TABLE)
    if functional in _rows:
        raise BadRegistration(_TABLE, functional, "it is registered already")
    first, second = find_operator(functional), find_operator(inplace)
    if first is not None and second is not None:
        _checked(first, second, results)
    _rows[functional] = (inplace, results)
    twin_of.cache_clear()


def registered_inplace_twins() -> tuple[tuple[str, str, tuple[str | int, ...]], ...]:
    """Every row, loaded or not."""
    return tuple((name, inplace, results) for name, (inplace, results) in _rows.items())


def unregister_inplace_twin(functional: str) -> None:
    """Takes a row out again."""
    del _rows[qualified(functional, _TABLE)]
    twin_of.cache_clear()


@cache
def twin_of(target: Any) -> Twin | None:
    """The in-place twin of `target`: registered, or derived from the schemas."""
    if not isinstance(target, OpOverload):
        return None
    name = name_of(target)
    if name in _rows:
        inplace = find_operator(_rows[name][0])
        return None if inplace is None else _checked(target, inplace, _rows[name][1])
    return _derived(target)


def _derived(target: OpOverload) -> Twin | None:
    schema = target._schema
    if schema.is_mutable or any(a.alias_info is not None for a in schema.arguments) or not schema.returns:
        return None
    namespace, name = schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    if packet is None:
        return None
    for overload in packet.overloads():
        inplace = getattr(packet, overload)
        results = _derived_results(target, inplace)
        if results is not None:
            return Twin(target, inplace, results)
    return None


def _derived_results(functional: OpOverload, inplace: OpOverload) -> tuple[str, ...] | None:
    if torch.Tag.inplace_view in inplace.tags or argument_problem(functional, inplace) is not None:
        return None
    written = written_arguments(inplace)
    if len(written) != 1 or len(functional._schema.returns) != 1:
        return None
    if inplace._schema.arguments[0].name != written[0]:
        return None
    if str(functional._schema.returns[0].type) != str(functional._schema.arguments[0].type):
        return None
    return (written[0],)


def _checked(functional: OpOverload, inplace: OpOverload, results: tuple[str | int, ...]) -> Twin:
    problem = _row_problem(functional, inplace, results)
    if problem is not None:
        raise BadRegistration(_TABLE, str(functional), problem)
    return Twin(functional, inplace, results)


def _row_problem(functional: OpOverload, inplace: OpOverload, results: tuple[str | int, ...]) -> str | None:
    if functional._schema.is_mutable:
        return f"{functional} writes its arguments: {functional._schema}"
    if (problem := argument_problem(functional, inplace)) is not None:
        return problem
    if len(results) != len(functional._schema.returns):
        return f"{len(results)} results are named, {functional} has {len(functional._schema.returns)}"
    written = set(written_arguments(inplace))
    named = [r for r in results if isinstance(r, str)]
    if set(named) != written or len(named) != len(written):
        return f"{inplace} writes {sorted(written) or 'nothing'}, the row names {sorted(named)}"
    count = len(inplace._schema.returns)
    if any(isinstance(r, int) and not 0 <= r < count for r in results):
        return f"{inplace} has {count} results, the row asks for {[r for r in results if isinstance(r, int)]}"
    return None
