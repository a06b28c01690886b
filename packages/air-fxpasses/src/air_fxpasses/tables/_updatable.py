"""Updatable parameters: host values of an operator that may change between replays of a captured graph.

The tiling of some attention kernels depends on sequence lengths that the host holds. A captured graph can
be patched with new ones instead of being captured again. A row says which parameters of which operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch._ops import OpOverload

from air_fxpasses.errors import BadRegistration
from air_fxpasses.npu_cards import operators
from air_graph import find_operator, name_of, qualified

_TABLE = "updatable parameters"


@dataclass(frozen=True, slots=True)
class Updatable:
    """The parameters of `operator` (`"ns::op.overload"`) that a replay may change."""

    operator: str
    parameters: tuple[str, ...]

    def positions(self, op: OpOverload) -> tuple[int | str, ...]:
        """Where a call passes them: a position, or the name of a keyword."""
        arguments = {a.name: (a.name if a.kwarg_only else i) for i, a in enumerate(op._schema.arguments)}
        return tuple(arguments[name] for name in self.parameters)


_ROWS = (
    *(Updatable(f"npu::{card.overload}", card.updatable) for card in operators() if card.updatable),
    Updatable("atb::_npu_paged_attention.default", ("context_lens",)),
    Updatable("atb::_npu_paged_attention_splitfuse.default", ("context_lens", "seq_len")),
    Updatable("atb::npu_multi_head_latent_attention.default", ("context_lens",)),
)
_rows: dict[str, Updatable] = {row.operator: row for row in _ROWS}


def register_updatable(operator: str, parameters: tuple[str, ...]) -> None:
    """Declares that replays may change `parameters` of `operator` (`"ns::op.overload"`).

    A parameter the schema does not have is refused: at once when the operator is loaded, and otherwise when
    it is first looked up.
    """
    operator = qualified(operator, _TABLE)
    if operator in _rows:
        raise BadRegistration(_TABLE, operator, "it is registered already")
    row = Updatable(operator, tuple(parameters))
    op = find_operator(operator)
    if op is not None:
        _check(row, op)
    _rows[operator] = row


def unregister_updatable(operator: str) -> None:
    """Takes a row out again."""
    del _rows[qualified(operator, _TABLE)]


def registered_updatable() -> tuple[Updatable, ...]:
    """Every row, loaded or not."""
    return tuple(_rows.values())


def updatable_of(target: Any) -> Updatable | None:
    """What a replay may change in calls of `target`."""
    if not isinstance(target, OpOverload):
        return None
    row = _rows.get(name_of(target))
    if row is not None:
        _check(row, target)
    return row


def _check(row: Updatable, op: OpOverload) -> None:
    known = [a.name for a in op._schema.arguments]
    unknown = [name for name in row.parameters if name not in known]
    if unknown or not row.parameters:
        missing = f"has no parameter {', '.join(unknown)}" if unknown else "is given no parameter"
        raise BadRegistration(_TABLE, row.operator, f"{op} {missing}; it has {', '.join(known)}")
